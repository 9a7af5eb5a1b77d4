/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cards.hpp - a workload for the checker of secondary indexes: cards have a colour, and an index
 * has them by colour.  Painters give a card another colour, and take cards away and bring them
 * back; auditors look all colours up, and read all cards by their numbers.
 */
#ifndef LAB_OLTPIM_CARDS_HPP
#define LAB_OLTPIM_CARDS_HPP

#include "bank.hpp"

namespace oltpim
{

constexpr unsigned COLOURS = 3;
constexpr uint64_t BY_COLOUR = uint64_t{OLTPIM_SECONDARY} << OLTPIM_TREE_SHIFT;
constexpr unsigned COLOUR_SHIFT = 8;

/* The low bits are the card, so a module has a colour whole. */
inline uint64_t colour_entry(uint64_t colour, uint64_t card)
{
	return BY_COLOUR | colour << COLOUR_SHIFT | card;
}

/* A card's value is its colour. */
inline uint64_t colour_entry_of(const Tuple &card)
{
	return card.is_removed ? NO_KEY : colour_entry(card.value, card.key);
}

inline Shifts shifts_of_cards()
{
	Shifts s = {};
	s[OLTPIM_SECONDARY] = COLOUR_SHIFT;
	return s;
}

class CardClient : public Client
{
public:
	CardClient(Database &db, Tuples &tuples, unsigned worker, unsigned slot, History *history,
	        unsigned cards, unsigned transactions, uint64_t seed)
	    : transaction_(db, tuples, worker, slot, history), cards_(cards),
	      left_(transactions), random_{seed}
	{
	}

	bool step() override
	{
		if (state_ == IDLE) {
			if (left_ == 0)
				return false;
			choose();
		} else if (state_ == ENDING) {
			if (transaction_.ended())
				state_ = IDLE;
		} else if (transaction_.ready()) {
			next();
		}
		return true;
	}
	/* The auditor of a state in which nothing goes on: cards that it found by colour. */
	uint64_t found() const
	{
		return found_;
	}

private:
	void choose()
	{
		transaction_.begin();
		paints_ = random_.below(3) != 0;
		card_ = random_.below(cards_);
		colour_ = random_.below(COLOURS);
		if (paints_)
			transaction_.get(card_);
		else
			look_up();
		transaction_.issue();
		state_ = FIRST;
	}
	void look_up()
	{
		for (uint64_t colour = 0; colour < COLOURS; colour++)
			transaction_.scan(colour_entry(colour, 0),
			        colour_entry(colour, (1u << COLOUR_SHIFT) - 1));
		for (uint64_t card = 0; card < cards_; card++)
			transaction_.get(card);
	}
	void next()
	{
		if (transaction_.failed())
			return end(false);
		if (state_ == FIRST)
			state_ = paints_ ? paint() : read_targets();
		else if (state_ == SECOND && paints_ && !removes_)
			state_ = move_entry();
		else
			return end(true);
		transaction_.issue();
	}

	enum State { IDLE, FIRST, SECOND, THIRD, ENDING };

	State read_targets()
	{
		found_ = 0;
		for (unsigned colour = 0; colour < COLOURS; colour++)
			for (unsigned k = 0; k < transaction_.count(colour); k++, found_++)
				transaction_.read(transaction_.found_target(colour, k));
		return SECOND;
	}
	/* The card, and the entry that it has had.  The new entry names the card's object, which
	 * the reply has. */
	State paint()
	{
		const bool there = transaction_.found(0);
		old_ = colour_entry(transaction_.value(0), card_);
		removes_ = there && random_.one_in(4);
		if (removes_)
			transaction_.remove(card_);
		else if (there)
			transaction_.update(card_, colour_);
		else
			transaction_.insert(card_, colour_);
		if (there)
			transaction_.remove(old_);
		return SECOND;
	}
	State move_entry()
	{
		transaction_.insert(colour_entry(colour_, card_), transaction_.target(0));
		return THIRD;
	}
	void end(bool succeeded)
	{
		left_ -= succeeded;
		if (succeeded)
			transaction_.commit();
		else
			transaction_.abort();
		state_ = ENDING;
	}

	State state_ = IDLE;
	Transaction transaction_;
	const unsigned cards_;
	unsigned left_;
	tools::Random random_;
	bool paints_ = false, removes_ = false;
	uint64_t card_ = 0, colour_ = 0, old_ = 0, found_ = 0;
};

} // namespace oltpim

#endif /* LAB_OLTPIM_CARDS_HPP */
