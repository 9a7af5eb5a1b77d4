/* SPDX-License-Identifier: BSD-3-Clause
 *
 * step06.cpp - step 6 of docs/tutorial.md: users, sessions and mails in containers.
 */
#include <crypt.h>
#include <ctime>
#include <fur/root.hpp>
#include <iostream>
#include <random>
#include <string>
#include <vector>

struct Login {
	int64_t last; /* seconds since 1970 */
	uint64_t count;
};

/* Lives in the heap. */
struct Site {
	fur::hash_map<fur::string, fur::string> passwords; /* user: hash of the password */
	fur::hash_map<uint64_t, fur::string> sessions;     /* token: user */
	fur::ordered_map<fur::string, Login> logins;       /* user: last login, and how many */
	fur::vector<int64_t> history;                      /* when each login was, in order */
};
using Mails = fur::queue<fur::string>;

namespace
{

/* All that a command needs. */
struct Store {
	fur::Heap &heap;
	Site *site;
	Mails *mails;
};

/* The hash that crypt(3) makes of a password, with the method and salt of `setting`. */
std::string hash_of(const std::string &password, const char *setting)
{
	crypt_data data = {};
	const char *hash = crypt_r(password.c_str(), setting, &data);
	if (!hash || *hash == '*')
		throw std::runtime_error("crypt(3) cannot hash this password");
	return hash;
}

bool add_user(fur_thread *self, Store s, const std::string &user, const std::string &password)
{
	char salt[CRYPT_GENSALT_OUTPUT_SIZE];
	if (!crypt_gensalt_rn(nullptr, 0, nullptr, 0, salt, sizeof salt))
		throw std::runtime_error("crypt(3) cannot make a salt");
	const std::string hash = hash_of(password, salt); /* slow, so before the update */
	return fur::update(self, fur::rerun, [&](fur_update *tx) {
		if (!s.site->passwords.insert(tx, user, hash))
			return false;
		s.mails->push(tx, "Welcome, " + user + "!");
		return true;
	});
}

/* The part of a login that changes the heap. */
void note_login(fur_update *tx, Site *site, const std::string &user, uint64_t token, int64_t now)
{
	site->sessions.insert_or_assign(tx, token, user);
	const Login before = site->logins.get(tx, user).value_or(Login{});
	site->logins.insert_or_assign(tx, user, {now, before.count + 1});
	site->history.push_back(tx, now);
}

uint64_t new_token()
{
	std::random_device random; /* its numbers are unpredictable */
	return uint64_t(random()) << 32 | random();
}

/* Returns the token of the new session; nothing if the name or the password is wrong. */
std::optional<uint64_t> login(
        fur_thread *self, Store s, const std::string &user, const std::string &password)
{
	const auto hash =
	        fur::read(self, [&](fur_ro *tx) { return s.site->passwords.get(tx, user); });
	if (!hash || hash_of(password, hash->c_str()) != *hash)
		return {};
	const uint64_t token = new_token();
	const int64_t now = time(nullptr);
	const bool valid = fur::update(self, fur::rerun, [&](fur_update *tx) {
		if (s.site->passwords.get(tx, user) != hash) /* changed meanwhile */
			return false;
		note_login(tx, s.site, user, token, now);
		return true;
	});
	return valid ? std::optional(token) : std::nullopt;
}

/* Sends the mails.  After a crash it may send one twice, but it never loses one. */
void send_mails(fur_thread *self, Store s)
{
	for (;;) {
		const auto mail = fur::read(self, [&](fur_ro *tx) { return s.mails->front(tx); });
		if (!mail)
			return;
		std::cout << "mail: " << *mail << std::endl;
		fur::update(self, fur::rerun, [&](fur_update *tx) { s.mails->pop(tx); });
	}
}

/* libfur reports rare events here, such as a recovery. */
void log_line(fur_log_level level, const char *message, void *)
{
	if (level != FUR_LOG_INFO)
		std::cerr << fur_name(FUR_NAME_LOG_LEVEL, level) << ": " << message << '\n';
}

int command(fur_thread *self, Store s, const std::vector<std::string> &words)
{
	const std::string &name = words.at(1);
	if (name == "add") {
		if (!add_user(self, s, words.at(2), words.at(3)))
			throw std::invalid_argument(words.at(2) + ": there is such a user");
	} else if (name == "login") {
		const auto token = login(self, s, words.at(2), words.at(3));
		if (!token)
			throw std::invalid_argument("wrong name or password");
		std::cout << *token << '\n';
	} else if (name == "whoami") {
		const uint64_t token = std::stoull(words.at(2));
		const auto user = fur::read(
		        self, [&](fur_ro *tx) { return s.site->sessions.get(tx, token); });
		std::cout << user.value_or("nobody") << '\n';
	} else if (name == "mail") {
		send_mails(self, s);
	} else {
		throw std::invalid_argument(name + ": no such command");
	}
	return 0;
}

int run(const std::vector<std::string> &words)
{
	fur::Options options;
	options.log = log_line;
	fur::Heap heap = fur::Heap::open_or_create(words.at(0), options);
	fur::Thread self(heap);
	const Store s = {heap, fur::root<Site>(self, "site"), fur::root<Mails>(self, "mails")};
	const int result = command(self, s, words);
	heap.close();
	return result;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 3) {
		std::cerr << "usage: " << argv[0] << " HEAP COMMAND [ARGUMENT...]\n";
		return 2;
	}
	try {
		return run({argv + 1, argv + argc});
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
