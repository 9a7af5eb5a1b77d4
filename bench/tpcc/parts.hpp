/* SPDX-License-Identifier: BSD-3-Clause
 *
 * parts.hpp - the updates as transactions for fur_group_submit(): one part for each heap that they
 * touch.
 */
#ifndef TPCC_PARTS_HPP
#define TPCC_PARTS_HPP

#include "inputs.hpp"
#include "table1.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <fur/group.hpp>

namespace tpcc
{

/* What each part of a transaction is given. */
template <class In>
struct Params {
	In in;
	const Workload *w;
	unsigned heap;
	std::exception_ptr *thrown; /* by a part, which must return */
};

namespace parts
{

using Here = Place<fur_update>;

/* Clause 2.4, but for the stock of suppliers in other heaps: a part of each takes that, and needs
 * nothing else.  An order that is to be rolled back is refused here, before it stores: otherwise
 * its whole batch would have to run again.  So all items are looked for first. */
inline bool order(Here here, const Params<NewOrder> &p, const void *, void *)
{
	if (p.w->scale.rollbacks && !items_exist(here.tx, here.db, p.in))
		return false;
	auto at = [&](uint64_t w) { return p.w->heap_of(w) == p.heap ? here : Here{}; };
	return new_order_at(at, p.in, p.w->scale.table1);
}
inline bool supply(Here here, const Params<NewOrder> &p, const void *, void *)
{
	for (uint64_t n = 0; n < p.in.lines; n++) {
		const auto &l = p.in.line[n];
		if (p.w->heap_of(l.supplier) == p.heap)
			take_stock(here, l.supplier, l.item, l.quantity, true);
	}
	return true;
}

/* Clause 2.5 in two heaps.  The key of the row of history has the customer, whom a name may stand
 * for, and the number of the payment.  So the customer's part comes first; its result is the key,
 * and the warehouse's part gets that as `before`. */
inline bool customer_pays(Here here, const Params<Payment> &p, const void *, void *result)
{
	*static_cast<uint64_t *>(result) = pay_by(here, p.in);
	return true;
}
inline bool warehouse_is_paid(Here here, const Params<Payment> &p, const void *before, void *)
{
	pay_to(here, p.in);
	if (!p.w->scale.table1)
		note_payment(here, p.in, *static_cast<const uint64_t *>(before));
	return true;
}
/* In one heap. */
inline bool payment(Here here, const Params<Payment> &p, const void *, void *)
{
	const uint64_t key = pay_by(here, p.in);
	return warehouse_is_paid(here, p, &key, nullptr);
}

inline bool delivery(Here here, const Params<Delivery> &p, const void *, void *)
{
	if (p.w->scale.table1)
		table1::delivery(here.tx, here.db, p.in);
	else
		tpcc::delivery(here.tx, here.db, p.in);
	return true;
}

/* A part as libfur calls it. */
template <class In, bool (*part)(Here, const Params<In> &, const void *, void *)>
bool call(fur_update *tx, fur_heap *, const void *params, size_t, const void *before, void *result)
{
	const auto &p = *static_cast<const Params<In> *>(params);
	*p.thrown = nullptr; /* it may have run before */
	try {
		return part({tx, static_cast<Database *>(fur_root(tx, 0))}, p, before, result);
	} catch (...) {
		*p.thrown = std::current_exception();
		return false;
	}
}

} // namespace parts

/* The updates that a thread has under way. */
class Submitting
{
public:
	Submitting(fur_group *group, const Workload &w) : group_(group), w_(w) {}
	Submitting(const Submitting &) = delete;
	~Submitting()
	{
		for (Update &u : under_way_)
			if (fur_group_wait(u.submitted))
				continue; /* no one asks any more */
	}

	bool full() const
	{
		return under_way_.size() == w_.submit;
	}
	/* Wait for the oldest.  Returns: its type.   Throws: what a part has thrown; Error. */
	Type wait()
	{
		const int error = fur_group_wait(under_way_.front().submitted);
		const Update oldest = std::move(under_way_.front());
		under_way_.pop_front();
		if (oldest.thrown)
			std::rethrow_exception(oldest.thrown);
		if (error == FUR_EABORTED) /* a new order, as it should be */
			return oldest.type;
		fur::check(error);
		committed_over_ += oldest.heaps > 1;
		return oldest.type;
	}
	void submit(Type type, Inputs &inputs)
	{
		if (type == DELIVERY)
			delivery(inputs.delivery());
		else if (type == PAYMENT)
			payment(inputs.payment());
		else
			new_order(inputs);
	}
	/* Of several heaps */
	uint64_t committed_over() const
	{
		return committed_over_;
	}

private:
	struct Update {
		Type type;
		unsigned heaps;
		fur_submitted *submitted;
		std::exception_ptr thrown;
	};
	template <class In>
	struct Parts {
		Parts(const In &of, const Workload &workload) : in(of), w(workload) {}
		const In &in;
		const Workload &w;
		unsigned n = 0;
		fur_part part[FUR_GROUP_MOST_PARTS];
		Params<In> params[FUR_GROUP_MOST_PARTS];

		/* Each comes after the first, so that this one may refuse. */
		template <bool (*body)(parts::Here, const Params<In> &, const void *, void *)>
		void add(unsigned heap)
		{
			params[n] = {in, &w, heap, nullptr};
			part[n] = {heap, 0, parts::call<In, body>, &params[n], sizeof params[n],
			        sizeof(uint64_t), nullptr};
			n++;
		}
		bool has(unsigned heap) const
		{
			return std::any_of(part, part + n,
			        [=](const fur_part &p) { return p.member == heap; });
		}
	};

	void new_order(Inputs &inputs)
	{
		bool roll_back; /* the part finds out */
		const NewOrder in = inputs.new_order(roll_back);
		Parts<NewOrder> all(in, w_);
		all.add<parts::order>(w_.heap_of(in.w));
		for (uint64_t n = 0; n < in.lines; n++)
			if (const unsigned heap = w_.heap_of(in.line[n].supplier); !all.has(heap))
				all.add<parts::supply>(heap);
		submit(NEW_ORDER, all);
	}
	void payment(const Payment &in)
	{
		const unsigned heap = w_.heap_of(in.w), customers = w_.heap_of(in.customer_w);
		Parts<Payment> all(in, w_);
		if (heap == customers) {
			all.add<parts::payment>(heap);
		} else {
			all.add<parts::customer_pays>(customers);
			all.add<parts::warehouse_is_paid>(heap);
		}
		submit(PAYMENT, all);
	}
	void delivery(const Delivery &in)
	{
		Parts<Delivery> all(in, w_);
		all.add<parts::delivery>(w_.heap_of(in.w));
		submit(DELIVERY, all);
	}
	template <class In>
	void submit(Type type, Parts<In> &all)
	{
		/* A deque leaves it where it is. */
		Update &u = under_way_.emplace_back(Update{type, all.n, nullptr, nullptr});
		for (unsigned k = 0; k < all.n; k++)
			all.params[k].thrown = &u.thrown;
		fur::check(fur_group_submit(group_, all.part, all.n, &u.submitted));
	}

	fur_group *group_;
	const Workload &w_;
	std::deque<Update> under_way_; /* the oldest first */
	uint64_t committed_over_ = 0;
};

} // namespace tpcc

#endif /* TPCC_PARTS_HPP */
