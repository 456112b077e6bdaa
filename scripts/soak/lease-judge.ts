import type { AskItem, AskKind, Outcome } from "./fleet.ts";

/** A claim's answer, as the worker saw it. Times are epoch milliseconds, all of one machine's clock. */
export interface SeenClaim {
  readonly leaseId: string;
  readonly sentAt: number;
  readonly answeredAt: number;
  /** `lease_expires_at`. */
  readonly expiresAt: number;
}

/** A worker's request for a lease. */
export interface SeenAsk extends Omit<AskItem, "id"> {
  readonly what: AskKind;
  readonly sentAt: number;
  /** Null without a response. */
  answeredAt: number | null;
  outcome: Outcome | null;
}

/** When the client asked to cancel a task, and when that was answered 200. */
export interface SeenCancel {
  readonly sentAt: number;
  readonly acknowledgedAt: number | null;
}

export interface TaskHistory {
  readonly id: string;
  readonly claims: readonly SeenClaim[];
  readonly asks: readonly SeenAsk[];
  readonly cancel: SeenCancel | null;
}

/** The two clocks of a type. */
export interface LeaseRule {
  readonly leaseMs: number;
  readonly timeoutMs: number;
}

/** The difference of one clock between two processes at the same moment. */
export const CLOCK_MS = 50;

/**
 * Finds what must never be in what was seen of a task.
 *
 * A lease is *surely live* at a moment when nothing that could have happened between the requests and answers that
 * were seen has it ended by then:
 *
 * - from the claim (`lease_expires_at` less the lease's length: the daemon's own word, which must lie between the
 *   sending of the claim and its answer) to `lease_expires_at`;
 * - from the sending of a heartbeat that was answered `ok` for the lease's length, but not beyond the type's timeout;
 * - in both cases only until a request that may end it was sent: complete, fail or release with this lease, with any
 *   outcome, or the task's cancelling.
 *
 * Violations are: a task claimed while another lease of it is surely live; anything but the repetition of an end that
 * counted answered `ok` to a lease after a newer one had been handed out; `lost` for a lease that is surely live from
 * the sending to the answer; `cancelled` for a task that was not cancelled; `ok` for a lease that was never handed out;
 * one lease handed out twice; a claim after the task's end (a completion or final failure that was answered `ok`, a
 * cancelling that was acknowledged); two leases with a completion answered `ok`.
 *
 * Allowed is: a run that goes on when its lease has run out. It is not live: nothing can stop it, and its completion is
 * accepted until the task is claimed again, `lost` afterwards. A worker that is killed ends no lease: it is live until
 * it runs out. A restart of the daemon ends none either and may only lengthen them. Within {@link CLOCK_MS} nothing is
 * judged, nor is a machine whose clock is set meanwhile.
 */
export function judgeLeases(history: TaskHistory, rule: LeaseRule): readonly string[] {
  const leases = history.claims
    .map((claim) => ({ ...claim, claimedAt: claim.expiresAt - leaseLength(rule) }))
    .toSorted((a, b) => a.claimedAt - b.claimedAt || a.answeredAt - b.answeredAt);
  const evidence = { ...history, leases, rule };
  const faults = [
    ...repeatedLeases(evidence),
    ...wrongTimes(evidence),
    ...overlaps(evidence),
    ...staleAnswers(evidence),
    ...unjustAnswers(evidence),
    ...claimsAfterEnd(evidence),
    ...secondCompletions(evidence),
  ];
  return faults.map((fault) => `${history.id}: ${fault}`);
}

/** A lease that was handed out, with the daemon's own time of the claim. */
interface SeenLease extends SeenClaim {
  readonly claimedAt: number;
}

interface Evidence extends TaskHistory {
  /** In the order of their claims. */
  readonly leases: readonly SeenLease[];
  readonly rule: LeaseRule;
}

interface Interval {
  readonly from: number;
  readonly to: number;
}

/** How long a lease holds from its claim on: never beyond the type's timeout. */
export function leaseLength({ leaseMs, timeoutMs }: LeaseRule): number {
  return Math.min(leaseMs, timeoutMs);
}

function repeatedLeases({ leases }: Evidence): readonly string[] {
  const ids = leases.map(({ leaseId }) => leaseId);
  const repeated = ids.filter((id, i) => ids.indexOf(id) !== i);
  return repeated.map((id) => `lease ${id} was handed out twice`);
}

function wrongTimes({ leases }: Evidence): readonly string[] {
  const wrong = leases.filter(({ claimedAt, sentAt, answeredAt }) => {
    return claimedAt < sentAt - CLOCK_MS || claimedAt > answeredAt + CLOCK_MS;
  });
  return wrong.map(({ leaseId }) => `lease ${leaseId} does not hold for its length from the claim`);
}

function overlaps(evidence: Evidence): readonly string[] {
  const { leases } = evidence;
  return leases.flatMap((lease, i) => {
    const live = liveIntervals(lease, { evidence, except: null });
    const claim = leases.slice(i + 1).find(({ claimedAt }) => {
      return live.some(({ from, to }) => from <= claimedAt && claimedAt < to - CLOCK_MS);
    });
    if (claim === undefined) return [];
    return [`lease ${claim.leaseId} was handed out while ${lease.leaseId} was live`];
  });
}

/** When a lease is surely live; `except` is a request that is not taken to have ended it. */
function liveIntervals(
  { leaseId, claimedAt, expiresAt }: SeenLease,
  { evidence, except }: { readonly evidence: Evidence; readonly except: SeenAsk | null },
): readonly Interval[] {
  const { leaseMs, timeoutMs } = evidence.rule;
  const asks = evidence.asks.filter((ask) => ask.leaseId === leaseId);
  const ends = asks.filter((ask) => ask.what !== "heartbeat" && ask !== except);
  const cancelledAt = evidence.cancel?.sentAt ?? Infinity;
  const endedAt = Math.min(cancelledAt, ...ends.map(({ sentAt }) => sentAt));
  const beats = asks.filter((ask) => ask.what === "heartbeat" && ask.outcome === "ok");
  const extended = beats.map(({ sentAt }) => {
    return { from: sentAt, to: Math.min(sentAt + leaseMs, claimedAt + timeoutMs, endedAt) };
  });
  return [{ from: claimedAt, to: Math.min(expiresAt, endedAt) }, ...extended];
}

function staleAnswers({ leases, asks }: Evidence): readonly string[] {
  return leases.flatMap(({ leaseId }, i) => {
    const newer = leases.slice(i + 1);
    const stale = asks.find((ask) => {
      const isServed = ask.leaseId === leaseId && ask.outcome === "ok";
      const isOutdated = newer.some(({ answeredAt }) => answeredAt < ask.sentAt);
      return isServed && isOutdated && !isRepetition(ask, asks);
    });
    if (stale === undefined) return [];
    return [`${stale.what} with lease ${leaseId} was taken after a newer claim`];
  });
}

function isRepetition(ask: SeenAsk, asks: readonly SeenAsk[]): boolean {
  if (ask.what === "heartbeat") return false;
  return asks.some((other) => {
    const isSame = other.leaseId === ask.leaseId && other.what === ask.what;
    return isSame && other !== ask && other.sentAt <= ask.sentAt && other.outcome !== "lost";
  });
}

function unjustAnswers(evidence: Evidence): readonly string[] {
  const { asks, leases, cancel } = evidence;
  return asks.flatMap((ask) => {
    const { what, leaseId, sentAt, answeredAt, outcome } = ask;
    if (outcome === null || answeredAt === null) return [];
    const lease = leases.find((each) => each.leaseId === leaseId);
    const text = `${what} with lease ${leaseId} was answered ${outcome}`;
    if (outcome === "cancelled") {
      return (cancel?.sentAt ?? Infinity) > answeredAt ? [`${text}, and nobody cancelled it`] : [];
    }
    if (outcome === "ok") return lease === undefined ? [`${text}, and nobody was given it`] : [];
    const live = lease === undefined ? [] : liveIntervals(lease, { evidence, except: ask });
    const isLive = live.some(({ from, to }) => from <= sentAt && answeredAt < to - CLOCK_MS);
    return isLive ? [`${text}, and it was live`] : [];
  });
}

function claimsAfterEnd({ leases, asks, cancel }: Evidence): readonly string[] {
  const final = asks.filter(({ what, outcome, retry }) => {
    return outcome === "ok" && (what === "complete" || (what === "fail" && retry === false));
  });
  const ends = final.map(({ answeredAt }) => answeredAt ?? Infinity);
  const endedAt = Math.min(cancel?.acknowledgedAt ?? Infinity, ...ends);
  const late = leases.find(({ claimedAt }) => claimedAt > endedAt + CLOCK_MS);
  return late === undefined ? [] : [`lease ${late.leaseId} was handed out after the task's end`];
}

function secondCompletions({ asks }: Evidence): readonly string[] {
  const completed = asks.filter(({ what, outcome }) => what === "complete" && outcome === "ok");
  const leases = new Set(completed.map(({ leaseId }) => leaseId));
  return leases.size > 1 ? [`${[...leases].join(" and ")} completed it, each answered ok`] : [];
}
