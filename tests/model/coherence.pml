/*
 * coherence.pml - the COHERENT protocol once more, for SPIN, written from docs/protocol.md and not from the code: a second
 * opinion on what the explorer searches. N agents with one thread each, P blocks; block b is homed, and owned at first, by agent b mod N.
 *
 * Network: at most one request, one answer, one grant, one recall and one PutAck are under way between an agent and a block's
 * home, so each is a variable; nothing orders them. Every kind of event is a process of its own: SPIN's weak fairness is by
 * process, and says here that every message arrives, every fault is taken, every woken thread runs and every timer ends.
 * Starts and evictions happen or not.
 *
 * A thread's access names one or two (block, read/write) and completes when all are mapped at that moment. Its agent sees faults.
 *
 * Checked in every step: one writer or many readers; a readable copy is the newest; page tables never allow more than the copy;
 * the directory knows every copy; home memory is right when nobody owns; no unexpected message; one message of a kind under
 * way; nobody waits where nothing can move. ltl completes (with LIVE): every access that was begun completes.
 *
 * Switches: N=2 P=2 (P <= 2) K=1 (data values) EVICT PAIRS=1 or 2 (accesses over two blocks, in both orders) LIVE (the ltl formula)
 * BUG=1 no hold, 2 a fault elsewhere gives up all, 3 a fault elsewhere gives up nothing, 4 grant before the last InvAck,
 * 5 an Upgrade that lost its race is answered without bytes, 6 a stale PutM is applied, 7 an Inv that meets an upgrade waits for its grant
 */
#ifndef N
#define N 2
#endif
#ifndef P
#define P 2
#endif
#ifndef PAIRS
#define PAIRS 0
#endif
#ifndef K
#define K 1
#endif
#ifndef BUG
#define BUG 0
#endif

/* agent: as runtime/coherence/agent.hpp */
#define I 0
#define S 1
#define M 2
#define IS 3
#define IM 4
#define SM 5
#define EV 6
#define SV 7
#define II 8
/* home: as runtime/coherence/directory.hpp */
#define Owned 0
#define Uncached 1
#define Shared 2
#define BusyInvM 3
#define BusyInvUp 4
#define BusyFetchS 5
#define BusyFetchM 6
/* thread */
#define Idle 0
#define Ready 1
#define Faulted 2
#define Waiting 3
/* messages, 0 is none */
#define GetS 1
#define GetM 2
#define Upgrade 3
#define PutS 4
#define PutM 5
#define InvAck 1
#define BlockBack 2
#define BlockBackKept 3
#define DataS 1
#define DataM 2
#define UpgAck 3
#define Inv 1
#define Fetch 2
#define FetchInv 3

#define AT(a, b) ((a)*P + (b))
#define BIT(i) (1 << (i))
#define HOME(b) ((b) % N)

/* agent and block */
byte st[N*P]; byte val[N*P]; byte def[N*P]; byte page[N*P];
byte req[N*P]; byte reqv[N*P]; byte ans[N*P]; byte ansv[N*P]; byte grant[N*P]; byte grantv[N*P]; byte recall[N*P]; bit putack[N*P];
/* block */
byte dir[P]; byte owner[P]; byte sharers[P]; byte requester[P]; byte mem[P]; byte newest[P];
chan queue[P] = [N] of { byte, byte, byte };   /* requests in the order of their arrival: type, agent, bytes */
/* thread: an element of its access is 1 + 2*block + write */
byte ts[N]; byte first[N]; byte second[N]; byte need[N];
byte held[N]; byte granted[N]; bit several[N]; bit timer[N]; bit woken[N];

hidden byte i_; hidden byte w_; hidden byte r_; hidden byte t_; hidden byte f_; hidden byte v_; hidden byte e_; hidden byte x_; hidden byte h_;

#define READABLE(s) ((s) == S || (s) == M || (s) == SM)
#define BUSY(b) (dir[b] >= BusyInvM)
#define BLOCK(e) (((e) - 1) / 2)
#define WRITES(e) (((e) - 1) % 2)
#define HOLDS(a, b) (held[a] & BIT(b))

inline check(b) {
	w_ = 0; r_ = 0; i_ = 0;
	do
	:: i_ < N ->
		if
		:: st[AT(i_, b)] == M -> w_++
		:: st[AT(i_, b)] == S || st[AT(i_, b)] == SM -> r_++
		:: else
		fi;
		if
		:: READABLE(st[AT(i_, b)]) ->
			assert(val[AT(i_, b)] == newest[b]);
			assert(BUSY(b) || (dir[b] == Owned && owner[b] == i_) || (dir[b] == Shared && (sharers[b] & BIT(i_))))
		:: else -> assert(page[AT(i_, b)] == 0)
		fi;
		assert(page[AT(i_, b)] < 2 || st[AT(i_, b)] == M);
		i_++
	:: else -> break
	od;
	assert(w_ <= 1 && (w_ == 0 || r_ == 0));
	assert((dir[b] != Uncached && dir[b] != Shared) || mem[b] == newest[b]);
	i_ = 0
}

/* ---- agent ---- */
inline send_request(a, b, what, bytes) { assert(req[AT(a, b)] == 0); req[AT(a, b)] = what; reqv[AT(a, b)] = bytes }
inline send_answer(a, b, what, bytes) { assert(ans[AT(a, b)] == 0); ans[AT(a, b)] = what; ansv[AT(a, b)] = bytes }

inline wake(a, b, w) {
	if :: w -> page[AT(a, b)] = 2 :: !w && page[AT(a, b)] == 0 -> page[AT(a, b)] = 1 :: else fi;
	ts[a] = Ready; need[a] = 0; woken[a] = 1; timer[a] = 1;
	granted[a] = granted[a] | BIT(2*b + w);
#if BUG != 1
	held[a] = held[a] | BIT(b)
#endif
}

/* the thread asks for, or waits for, block b */
inline serve(a, b, w) {
	if
	:: st[AT(a, b)] == I && w -> send_request(a, b, GetM, 0); st[AT(a, b)] = IM
	:: st[AT(a, b)] == I && !w -> send_request(a, b, GetS, 0); st[AT(a, b)] = IS
	:: st[AT(a, b)] == S && w -> send_request(a, b, Upgrade, 0); st[AT(a, b)] = SM
	:: st[AT(a, b)] == M || (READABLE(st[AT(a, b)]) && !w) -> wake(a, b, w)
	:: else
	fi
}
inline serve_waiter(a, b) {
	if
	:: ts[a] == Waiting && BLOCK(need[a]) == b -> e_ = need[a]; serve(a, b, WRITES(e_)); e_ = 0
	:: else
	fi
}

inline drop(a, b, to) { page[AT(a, b)] = 0; st[AT(a, b)] = to; val[AT(a, b)] = 0 }

/* a recall that nothing keeps any longer, and whose grant is here */
inline serve_recall(a, b) {
	if
#if BUG == 7
	:: def[AT(a, b)] == Inv && !HOLDS(a, b) && st[AT(a, b)] == S ->
#else
	:: def[AT(a, b)] == Inv && !HOLDS(a, b) && (st[AT(a, b)] == S || st[AT(a, b)] == SM) ->
#endif
		def[AT(a, b)] = 0; send_answer(a, b, InvAck, 0);
		if :: st[AT(a, b)] == SM -> drop(a, b, IM) :: else -> drop(a, b, I) fi;
		serve_waiter(a, b)
	:: def[AT(a, b)] == Fetch && !HOLDS(a, b) && st[AT(a, b)] == M ->
		def[AT(a, b)] = 0; send_answer(a, b, BlockBackKept, val[AT(a, b)]);
		st[AT(a, b)] = S; if :: page[AT(a, b)] == 2 -> page[AT(a, b)] = 1 :: else fi;
		serve_waiter(a, b)
	:: def[AT(a, b)] == FetchInv && !HOLDS(a, b) && st[AT(a, b)] == M ->
		def[AT(a, b)] = 0; send_answer(a, b, BlockBack, val[AT(a, b)]);
		drop(a, b, I);
		serve_waiter(a, b)
	:: else
	fi
}
inline serve_recalls(a) {
	serve_recall(a, 0);
#if P > 1
	serve_recall(a, 1)
#endif
}

proctype Take(byte a) {
end:	do
	:: d_step { ts[a] == Faulted ->
		ts[a] = Waiting; timer[a] = 0; x_ = need[a];
		if :: granted[a] & BIT(x_ - 1) -> several[a] = 1 :: else fi;
#if BUG == 2
		held[a] = 0;
#elif BUG != 3
		if :: several[a] -> held[a] = held[a] & (BIT(BLOCK(x_)) - 1) :: else -> held[a] = 0 fi;
#endif
		serve_recalls(a);
		if :: ts[a] == Waiting -> h_ = BLOCK(x_); w_ = WRITES(x_); e_ = w_; serve(a, h_, e_) :: else fi;
		h_ = 0; e_ = 0; x_ = 0;
		check(0);
#if P > 1
		check(1)
#endif
	}
	od
}

/* never between a fault and its taking, never before a woken thread has run */
proctype Timer(byte a) {
end:	do
	:: d_step { timer[a] && !woken[a] && (ts[a] == Idle || ts[a] == Ready) ->
		timer[a] = 0; held[a] = 0; granted[a] = 0; several[a] = 0;
		serve_recalls(a);
		check(0);
#if P > 1
		check(1)
#endif
	}
	od
}

proctype Grant(byte a; byte b) {
end:	do
	:: d_step { grant[AT(a, b)] != 0 ->
		if
		:: grant[AT(a, b)] == DataS -> assert(st[AT(a, b)] == IS); st[AT(a, b)] = S; val[AT(a, b)] = grantv[AT(a, b)]
		:: grant[AT(a, b)] == DataM -> assert(st[AT(a, b)] == IM); st[AT(a, b)] = M; val[AT(a, b)] = grantv[AT(a, b)]
		:: grant[AT(a, b)] == UpgAck -> assert(st[AT(a, b)] == SM); st[AT(a, b)] = M
		fi;
		grant[AT(a, b)] = 0; grantv[AT(a, b)] = 0;
		serve_waiter(a, b); serve_recall(a, b); check(b) }
	od
}

proctype Recall(byte a; byte b) {
end:	do
	:: d_step { recall[AT(a, b)] != 0 ->
		t_ = recall[AT(a, b)]; recall[AT(a, b)] = 0;
		assert(def[AT(a, b)] == 0);
		if
		:: t_ == Inv && st[AT(a, b)] == SV -> send_answer(a, b, InvAck, 0); st[AT(a, b)] = II
		:: t_ != Inv && st[AT(a, b)] == EV -> send_answer(a, b, BlockBack, val[AT(a, b)]); st[AT(a, b)] = II; val[AT(a, b)] = 0
		:: else ->
			assert(t_ == Inv -> (st[AT(a, b)] == S || st[AT(a, b)] == SM || st[AT(a, b)] == IS) :
			                    (st[AT(a, b)] == M || st[AT(a, b)] == IM || st[AT(a, b)] == SM));
			def[AT(a, b)] = t_; serve_recall(a, b)
		fi;
		t_ = 0; check(b) }
	od
}

#ifdef EVICT
proctype PutAck(byte a; byte b) {
end:	do
	:: d_step { putack[AT(a, b)] ->
		assert(st[AT(a, b)] == EV || st[AT(a, b)] == SV || st[AT(a, b)] == II);
		putack[AT(a, b)] = 0; drop(a, b, I); serve_waiter(a, b); check(b) }
	od
}
#endif

/* ---- thread ---- */
inline complete(a, e) {
	assert(val[AT(a, BLOCK(e))] == newest[BLOCK(e)]);
	if :: WRITES(e) -> newest[BLOCK(e)] = (newest[BLOCK(e)] + 1) % K; val[AT(a, BLOCK(e))] = newest[BLOCK(e)] :: else fi
}
#define MISSING(a, e) ((e) != 0 && page[AT(a, BLOCK(e))] < 1 + WRITES(e))

proctype Thread(byte a) {
end:	do
	:: d_step { ts[a] == Ready ->
		woken[a] = 0;
		if
		:: MISSING(a, first[a]) -> ts[a] = Faulted; need[a] = first[a]
		:: else ->
			if
			:: second[a] != 0 && MISSING(a, second[a]) -> ts[a] = Faulted; need[a] = second[a]
			:: else ->
				complete(a, first[a]);
				if :: second[a] != 0 -> complete(a, second[a]) :: else fi;
				ts[a] = Idle; first[a] = 0; second[a] = 0
			fi
		fi;
		check(0);
#if P > 1
		check(1)
#endif
	}
	od
}

#define BEGIN(may, x, y) d_step { may && ts[a] == Idle -> ts[a] = Ready; first[a] = x; second[a] = y }
#define R(b) (1 + 2*(b))
#define W(b) (2 + 2*(b))

/* what may happen, and need not */
proctype Whim(byte a) {
	byte b;
end:	do
#ifdef LIVE
	:: b == 0   /* rests, so that fairness forces no start */
#endif
#if PAIRS
	:: BEGIN(a == 0, W(0), W(1))
	:: BEGIN(a != 0, W(1), W(0))
#if PAIRS > 1
	:: BEGIN(a == 0, R(1), W(0))
	:: BEGIN(a != 0, R(0), W(1))
#endif
#else
	:: BEGIN(true, R(0), 0)
	:: BEGIN(true, W(0), 0)
#if P > 1
	:: BEGIN(true, R(1), 0)
	:: BEGIN(true, W(1), 0)
#endif
#endif
#ifdef EVICT
#define MAY_EVICT(b) (a != HOME(b) && def[AT(a, b)] == 0 && !HOLDS(a, b))
#define EVICTION(b) \
	:: d_step { MAY_EVICT(b) && st[AT(a, b)] == S -> send_request(a, b, PutS, 0); drop(a, b, SV); check(b) } \
	:: d_step { MAY_EVICT(b) && st[AT(a, b)] == M -> send_request(a, b, PutM, val[AT(a, b)]); page[AT(a, b)] = 0; st[AT(a, b)] = EV; check(b) }
	EVICTION(0)
#if P > 1
	EVICTION(1)
#endif
#endif
	od
}

#ifndef LIVE
/* nothing can move: then nobody waits */
proctype Watch() {
	byte a;
end:	do
	:: atomic { timeout ->
		a = 0;
		do
		:: a < N -> assert(ts[a] == Idle); a++
		:: else -> break
		od;
		a = 0 }
	od
}
#endif

/* ---- home ---- */
inline send_grant(b, what, bytes) { assert(grant[AT(requester[b], b)] == 0); grant[AT(requester[b], b)] = what; grantv[AT(requester[b], b)] = bytes }
inline send_recall(a, b, what) { assert(recall[AT(a, b)] == 0); recall[AT(a, b)] = what }
inline own(b) { dir[b] = Owned; owner[b] = requester[b]; sharers[b] = 0; requester[b] = 0 }
inline grant_m(b) { send_grant(b, DataM, mem[b]); own(b) }
inline grant_up(b) { send_grant(b, UpgAck, 0); own(b) }

/* requests are served in the order of their arrival, one transaction at a time */
inline serve_queue(b) {
	do
	:: !BUSY(b) && len(queue[b]) > 0 ->
		queue[b]?t_,f_,v_;
		if
		:: t_ == PutS ->
			if
			:: dir[b] == Shared && (sharers[b] & BIT(f_)) ->
				sharers[b] = sharers[b] & ~BIT(f_);
				if :: sharers[b] == 0 -> dir[b] = Uncached :: else fi
			:: else
			fi;
			assert(!putack[AT(f_, b)]); putack[AT(f_, b)] = 1
		:: t_ == PutM ->
			if
#if BUG == 6
			:: dir[b] == Owned -> mem[b] = v_; dir[b] = Uncached; owner[b] = 0
#else
			:: dir[b] == Owned && owner[b] == f_ -> mem[b] = v_; dir[b] = Uncached; owner[b] = 0
#endif
			:: else
			fi;
			assert(!putack[AT(f_, b)]); putack[AT(f_, b)] = 1
		:: t_ <= Upgrade ->
			requester[b] = f_;
			if
			:: dir[b] == Owned ->
				assert(owner[b] != f_);
				if
				:: t_ == GetS -> dir[b] = BusyFetchS; send_recall(owner[b], b, Fetch)
				:: else -> dir[b] = BusyFetchM; send_recall(owner[b], b, FetchInv)
				fi
			:: dir[b] != Owned && t_ == GetS ->
				send_grant(b, DataS, mem[b]); dir[b] = Shared; sharers[b] = sharers[b] | BIT(f_); requester[b] = 0
			:: dir[b] == Uncached && t_ != GetS -> grant_m(b)
			:: dir[b] == Shared && t_ != GetS ->
#if BUG == 5
				if :: t_ == Upgrade -> dir[b] = BusyInvUp :: else -> dir[b] = BusyInvM fi;
#else
				if :: t_ == Upgrade && (sharers[b] & BIT(f_)) -> dir[b] = BusyInvUp :: else -> dir[b] = BusyInvM fi;
#endif
				sharers[b] = sharers[b] & ~BIT(f_);
				i_ = 0;
				do
				:: i_ < N -> if :: sharers[b] & BIT(i_) -> send_recall(i_, b, Inv) :: else fi; i_++
				:: else -> break
				od;
				i_ = 0;
#if BUG == 4
				sharers[b] = 0;
#endif
				if
				:: sharers[b] == 0 && dir[b] == BusyInvUp -> grant_up(b)
				:: sharers[b] == 0 && dir[b] == BusyInvM -> grant_m(b)
				:: else
				fi
			fi
		fi;
		t_ = 0; f_ = 0; v_ = 0
	:: else -> break
	od
}

proctype Request(byte a; byte b) {
end:	do
	:: d_step { req[AT(a, b)] != 0 ->
		assert(len(queue[b]) < N);
		queue[b]!req[AT(a, b)],a,reqv[AT(a, b)];
		req[AT(a, b)] = 0; reqv[AT(a, b)] = 0;
		serve_queue(b); check(b) }
	od
}

proctype Answer(byte a; byte b) {
end:	do
	:: d_step { ans[AT(a, b)] != 0 ->
		if
		:: ans[AT(a, b)] == InvAck ->
			assert((dir[b] == BusyInvM || dir[b] == BusyInvUp) && (sharers[b] & BIT(a)));
			sharers[b] = sharers[b] & ~BIT(a);
			if
			:: sharers[b] == 0 && dir[b] == BusyInvM -> grant_m(b)
			:: sharers[b] == 0 && dir[b] == BusyInvUp -> grant_up(b)
			:: else
			fi
		:: else ->
			assert(owner[b] == a && (dir[b] == BusyFetchS || (dir[b] == BusyFetchM && ans[AT(a, b)] == BlockBack)));
			mem[b] = ansv[AT(a, b)]; owner[b] = 0;
			if
			:: dir[b] == BusyFetchS ->
				sharers[b] = BIT(requester[b]);
				if :: ans[AT(a, b)] == BlockBackKept -> sharers[b] = sharers[b] | BIT(a) :: else fi;
				dir[b] = Shared; send_grant(b, DataS, mem[b]); requester[b] = 0
			:: else -> grant_m(b)
			fi
		fi;
		ans[AT(a, b)] = 0; ansv[AT(a, b)] = 0;
		serve_queue(b); check(b) }
	od
}

init {
	byte a; byte b;
	atomic {
		b = 0;
		do
		:: b < P -> st[AT(HOME(b), b)] = M; owner[b] = HOME(b); b++
		:: else -> break
		od;
		a = 0;
		do
		:: a < N ->
			run Thread(a); run Take(a); run Timer(a); run Whim(a);
			b = 0;
			do
			:: b < P ->
				run Request(a, b); run Answer(a, b); run Grant(a, b); run Recall(a, b);
#ifdef EVICT
				run PutAck(a, b);
#endif
				b++
			:: else -> break
			od;
			a++
		:: else -> break
		od;
		a = 0; b = 0;
#ifndef LIVE
		run Watch()
#endif
	}
}

#ifdef LIVE
ltl completes { [] (ts[0] != Idle -> <> (ts[0] == Idle)) }
#endif
