// The faulting threads that a lane knows: who waits for what, what each thread holds, where its stream is. A thread is (rank,
// thread id); an entry is made at its first fault and recycled when it neither waits nor holds. Fixed size, no heap after
// construction. One lane's: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/ids.hpp"
#include "runtime/coherence/hold.hpp"

namespace farpage::engine {

using ThreadSlot = uint32_t;
inline constexpr ThreadSlot kNoThread = 0xffff'ffff;

enum class WaitingFor : uint8_t { Nothing, Block, Region, Frame };

/// A thread's sequential reading, noticed from its faults.
struct Stream {
  uint64_t next_slot = 0;  // where the next fault is expected
  uint32_t window = 0;     // blocks asked ahead; doubles while the guess holds
  uint64_t asked_to = 0;   // one past the last block asked ahead
};

struct Thread {
  RankSlot rank = 0;
  uint32_t tid = 0;
  bool used = false;
  WaitingFor waiting = WaitingFor::Nothing;
  bool write = false;             // what it waits for
  bool upgrade = false;           // the fault hit a read-only mapping
  uint64_t slot = 0;              // block it waits for (Block, Frame)
  WindowOffset offset = 0;        // address of the fault
  uint64_t fault_ns = 0;
  uint64_t deadline_ns = 0;
  ThreadSlot next = kNoThread;    // in its list
  ThreadSlot previous = kNoThread;
  coherence::ThreadHold hold;
  uint64_t hold_due_ns = 0;       // 0: timer not running
  Stream stream;
};

class Threads {
 public:
  Threads();

  /// The entry of a thread; made when new. Recycles an idle one when full.
  ThreadSlot find_or_add(RankSlot rank, uint32_t tid);
  Thread& operator[](ThreadSlot slot) { return threads_[slot]; }

  void start_waiting(ThreadSlot thread, WaitingFor what, uint64_t block_slot);
  void stop_waiting(ThreadSlot thread);
  uint32_t waiting() const { return waiting_; }

  /// The first thread that waits for this block with this kind of access, oldest first; kNoThread if none.
  ThreadSlot first_waiter(uint64_t block_slot, bool write);

  template <class Visit>
  void for_each_waiting(Visit&& visit) {
    if (waiting_ == 0) return;
    for (ThreadSlot t = 0; t < high_water_; t++)
      if (threads_[t].waiting != WaitingFor::Nothing) visit(t, threads_[t]);
  }

  /// Threads whose hold timer runs.
  void start_timer(ThreadSlot thread, uint64_t due_ns);
  void stop_timer(ThreadSlot thread);
  uint64_t earliest_timer() const;
  /// A thread whose timer has run out, its timer stopped; kNoThread if none.
  ThreadSlot take_expired(uint64_t now_ns);

  /// Calls end(thread) for each thread that holds a block for which inside(slot) is true; its timer is stopped first.
  template <class Inside, class End>
  void drop_holds(Inside&& inside, End&& end) {
    for (ThreadSlot t = 0; t < high_water_; t++) {
      if (!threads_[t].used || !threads_[t].hold.any_of(inside)) continue;
      stop_timer(t);
      end(t);
    }
  }

  /// Forgets all threads of a rank that has gone.
  void drop_rank(RankSlot rank);

 private:
  static constexpr uint32_t kCapacity = 8192;
  static constexpr uint32_t kBuckets = 1024;
  uint32_t bucket_of(uint64_t block_slot) const { return static_cast<uint32_t>(block_slot * 0x9e3779b97f4a7c15ull >> 54); }
  uint32_t index_hash(RankSlot rank, uint32_t tid) const;

  std::vector<Thread> threads_;
  std::vector<ThreadSlot> index_;  // open addressing by (rank, tid); kNoThread: empty
  std::vector<ThreadSlot> first_, last_;
  std::vector<ThreadSlot> timers_;
  uint32_t high_water_ = 0;
  uint32_t waiting_ = 0;
  uint32_t recycle_hand_ = 0;
};

}  // namespace farpage::engine
