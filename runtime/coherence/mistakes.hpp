// Planted mistakes: known ways to get the protocol wrong, each of which explorer, simulator or litmus tests must find. They
// exist only in builds with FARPAGE_PLANTED_MISTAKES; in every other build planted() is a constant false.
#pragma once

#include <cstdint>

namespace farpage::coherence {

enum class Mistake : uint8_t {
  None,
  GrantBeforeLastInvAck,      // the home grants as soon as it has sent the invalidations
  OwnerForgetsEvictedBytes,   // an evicting owner answers a fetch with old bytes
  UpgradeBelieved,            // the home answers an Upgrade of somebody who is no sharer any more without bytes
  StaleWritebackApplied,      // a PutM that lost its race overwrites home memory
  RecallBeforeGrantForgotten, // an Inv or Fetch that overtakes its grant is dropped
  InvBeforeGrantAnswered,     // an Inv that overtakes its grant is acknowledged, and the grant used all the same
  InvAckBeforeWithdraw,       // the acknowledgement goes out, the pages stay until the hold ends
  NoHold,                     // grants are recalled at once
  PlainHold,                  // a fault elsewhere always gives up the whole set
  KeepEverything,             // a fault elsewhere gives up nothing
  HeldBlockEvicted,           // eviction does not ask for holds
  UpgradeKeepsInv,            // an Inv that meets a waiting upgrade waits for the grant
  EarlyFetchAnswered,         // a Fetch that overtakes UpgAck is answered from the old bytes
  DeferredRecallForgotten,    // the end of a hold does not serve the recall that waited for it
  WaitersForgotten,           // after a downgrade or an eviction nobody asks again for those who wait
  PutSForgotten,              // the home drops PutS without taking the sharer out
  DowngradeKeepsWriters,      // after a Fetch the owner goes on writing
  kCount,
};

#ifdef FARPAGE_PLANTED_MISTAKES
#ifndef FARPAGE_FIRST_MISTAKE  // the one that a build has planted from its start
#define FARPAGE_FIRST_MISTAKE None
#endif
inline Mistake planted_mistake = Mistake::FARPAGE_FIRST_MISTAKE;
inline bool planted(Mistake mistake) { return planted_mistake == mistake; }
#else
constexpr bool planted(Mistake) { return false; }
#endif

constexpr const char* name(Mistake mistake) {
  constexpr const char* kNames[] = {"None", "GrantBeforeLastInvAck", "OwnerForgetsEvictedBytes", "UpgradeBelieved",
                                    "StaleWritebackApplied", "RecallBeforeGrantForgotten", "InvBeforeGrantAnswered",
                                    "InvAckBeforeWithdraw", "NoHold", "PlainHold", "KeepEverything", "HeldBlockEvicted",
                                    "UpgradeKeepsInv", "EarlyFetchAnswered", "DeferredRecallForgotten", "WaitersForgotten",
                                    "PutSForgotten", "DowngradeKeepsWriters"};
  return kNames[static_cast<uint8_t>(mistake)];
}

}  // namespace farpage::coherence
