/* SPDX-License-Identifier: BSD-3-Clause
 *
 * logins.cpp - the program of steps 6 to 11 of docs/tutorial.md, as step 11 leaves it.  Comments
 * mark what each step adds, and the few lines that a later step replaces.  `sh cut_steps.sh` writes
 * each step as a program without them.
 */
#include <crypt.h>
#include <ctime>
#include <fur/root.hpp>
#include <future> // from step 7
#include <iostream>
#include <random>
#include <string>
#include <unistd.h> // from step 11
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

// from step 7
/* What the containers say about each other, as of one instant. */
struct Totals {
	uint64_t users, logins, history;
};

Totals totals(fur_thread *self, const Site *site)
{
	return fur::read(self, [&](fur_ro *tx) {
		Totals t = {site->logins.size(tx), 0, site->history.size(tx)};
		for (auto [user, login] : site->logins.in(tx))
			t.logins += login.count;
		return t;
	});
}

int show(const Totals &t)
{
	std::cout << t.users << " users, " << t.logins << " logins, " << t.history
	          << " in the history\n";
	return t.logins != t.history;
}

// end of step 7
// from step 8
/* Lists everybody by name.  No login waits for the output: it follows the scan. */
void list(fur_thread *self, const Site *site)
{
	std::string text;
	fur::scan(self, site->logins, [&](const std::string &user, const Login &login) {
		text += user + ": " + std::to_string(login.count) + " logins\n";
	});
	std::cout << text;
}

/* Reports in a child process, on a copy of the heap as of one instant. */
int report(const fur::Heap &heap)
{
	return heap.scan([](const fur::Heap &copy) {
		fur::Thread self(copy);
		const int result = show(totals(self, fur::find_root<Site>(self, "site")));
		std::cout << std::flush; /* the child ends without doing it */
		return result;
	});
}

// end of step 8
// from step 7
/* Many users log in, in several threads.  Their passwords are not checked, for that takes long. */
// until step 7: void load(Store s, unsigned threads, unsigned logins)
int load(Store s, unsigned threads, unsigned logins) // from step 8
{
	std::vector<std::future<void>> running;
	for (unsigned t = 0; t < threads; t++)
		running.push_back(std::async(std::launch::async, [=] {
			fur::Thread self(s.heap); /* each thread registers itself */
			for (unsigned i = 0; i < logins; i++) {
				const std::string user = "user" + std::to_string(i % 100);
				const uint64_t token = new_token();
				const int64_t now = time(nullptr);
				fur::update(self, fur::rerun, [&](fur_update *tx) {
					note_login(tx, s.site, user, token, now);
				});
			}
		}));
	const int wrong = report(s.heap); /* meanwhile */ // from step 8
	for (auto &thread : running)
		thread.get(); /* throws what the thread has thrown */
	// from step 8
	return wrong;
	// end of step 8
}

// end of step 7
// from step 9
/* Adds users who have never logged in. */
void import(fur_thread *self, Store s, unsigned users)
{
	std::vector<std::pair<std::string, Login>> all;
	for (unsigned i = 0; i < users; i++)
		all.emplace_back("guest" + std::to_string(i), Login{});
	const uint64_t before = s.heap.info().heap_bytes;
	fur::fill(self, s.site->logins, all.begin(), all.end());
	std::cout << "the heap has grown from " << (before >> 20) << " to "
	          << (s.heap.info().heap_bytes >> 20) << " MiB\n";
}

// end of step 9
// from step 11
/* Logs in all whose names have come.  The answers hold once the ticket is waited for. */
std::string answer(
        fur_thread *self, Store s, const std::vector<std::string> &users, fur_ticket &ticket)
{
	std::string answers;
	for (const std::string &user : users) {
		const uint64_t token = new_token();
		const int64_t now = time(nullptr);
		fur::update(self, ticket,
		        [&](fur_update *tx) { note_login(tx, s.site, user, token, now); });
		answers += user + " " + std::to_string(token) + '\n';
	}
	return answers;
}

/* Cuts the whole lines from the front of `text`. */
std::vector<std::string> cut_lines(std::string &text)
{
	std::vector<std::string> lines;
	for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
		lines.push_back(text.substr(0, end));
	return lines;
}

/* Serves requests from standard input: a line with a name asks for a session. */
void serve(fur_thread *self, Store s)
{
	std::string input;
	char buffer[16384];
	uint64_t logins = 0, rounds = 0;
	for (ssize_t n; (n = read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) {
		const auto users = cut_lines(input.append(buffer, n)); /* all that have come */
		if (users.empty())
			continue;
		fur_ticket ticket;
		const std::string answers = answer(self, s, users, ticket);
		fur::wait(self, ticket); /* once for all */
		std::cout << answers << std::flush;
		logins += users.size();
		rounds++;
	}
	std::cout << logins << " logins, " << rounds << " waits\n";
}

// end of step 11
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
		// from step 7
	} else if (name == "load") {
		// until step 7: load(s, std::stoul(words.at(2)), std::stoul(words.at(3)));
		// until step 7: return show(totals(self, s.site));
		// end of step 7
		// from step 8
		const int wrong = load(s, std::stoul(words.at(2)), std::stoul(words.at(3)));
		return show(totals(self, s.site)) | wrong;
	} else if (name == "list") {
		list(self, s.site);
		// end of step 8
		// from step 9
	} else if (name == "import") {
		import(self, s, std::stoul(words.at(2)));
		// end of step 9
		// from step 10
	} else if (name == "backup") {
		s.heap.backup(words.at(2));
	} else if (name == "show") {
		return show(totals(self, s.site));
		// end of step 10
		// from step 11
	} else if (name == "serve") {
		serve(self, s);
		// end of step 11
	} else {
		throw std::invalid_argument(name + ": no such command");
	}
	return 0;
}

int run(const std::vector<std::string> &words)
{
	fur::Options options;
	options.log = log_line;
	// from step 9
	options.heap_bytes = 4 << 20; /* at first, if this program makes the heap */
	options.max_bytes = 1 << 30;  /* costs addresses, not disk and not memory */
	// end of step 9
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
