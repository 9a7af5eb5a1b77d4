/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peer_file.hpp - the file a peer works on: the options' heap, or one of its own in /dev/shm,
 * removed at the end.
 */
#ifndef BENCH_PEER_FILE_HPP
#define BENCH_PEER_FILE_HPP

#include "../common/tm.hpp"

namespace bench
{

class PeerFile
{
public:
	/* `beside`: suffix of a second file that the peer makes, or null.  Throws Usage if the file
	 * exists and must not be reused. */
	explicit PeerFile(const TmOptions &o, const char *beside = nullptr)
	    : path_(o.path()), own_(o.heap.empty()), beside_(beside),
	      exists_(access(path_.c_str(), F_OK) == 0)
	{
		if (exists_ && !o.reuse)
			throw Usage(path_ + ": the file exists: remove it, or give --reuse");
	}
	~PeerFile()
	{
		if (!own_)
			return;
		unlink(path_.c_str());
		if (beside_)
			unlink((path_ + beside_).c_str());
	}
	PeerFile(const PeerFile &) = delete;
	const char *path() const
	{
		return path_.c_str();
	}
	bool exists() const
	{
		return exists_;
	}

private:
	std::string path_;
	bool own_;
	const char *beside_;
	bool exists_;
};

} // namespace bench

#endif /* BENCH_PEER_FILE_HPP */
