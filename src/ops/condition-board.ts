import type { Clock, Timer } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import {
  LOGGED_ELSEWHERE,
  SEEN_BY_ALL,
  type Condition,
  type ConditionName,
  type StandingCondition,
} from "../domain/stats/condition.ts";
import type { OperatorEvent } from "../domain/webhook/webhook-request.ts";
import type { Cluster } from "../store/store.ts";
import type { Looked } from "./condition-source.ts";
import type { GivenUp } from "./receiver-watch.ts";

export interface ConditionBoardDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly cluster: Pick<Cluster, "holds">;
  /** Finds the conditions of this moment. */
  readonly find: () => Promise<Looked>;
  /** Takes what was given up: once it is some minutes old, or whatever there is. */
  readonly takeGivenUp: (when: "in time" | "at once") => GivenUp | null;
  /** Calls `lost` when the event can no longer arrive. */
  readonly tell: (event: OperatorEvent, lost?: () => void) => void;
}

interface Entry {
  readonly since: number;
  condition: Condition;
  /** When it was found last, or could not be looked at, by the monotonic clock. */
  foundAt: number;
  /** True once this node has told of its beginning. */
  isTold: boolean;
  /** When the event that told so was lost, by the monotonic clock; null while it is not known to be. */
  lostAt: number | null;
  /** True once it is over, and another node is to tell so. */
  isOver: boolean;
}

const LOOK_MS = 15_000;
// Whatever comes and goes is told once.
const OVER_AFTER_MS = 5 * 60_000;
// A dead node holds its roles for ten more seconds, and the checks are 15 s apart. An end may be sent twice, never lost.
const HANDED_OVER_MS = 60_000;
// Whoever is away for long is told of what still holds within that time.
const LOST_AGAIN_MS = 60 * 60_000;
// Clients name the hosts: however many fail, no more are told of at a time.
const OF_A_NAME_MAX = 20;

/**
 * The list of what the operator should mend, looked at every few seconds. The log, the dashboard and the operator's
 * webhooks tell of it: once when a condition begins, and once when it has not been found for five minutes. Of what all
 * nodes see, the one that sweeps tells. All of it is in memory: what still lasts after a restart, or when another node
 * sweeps, is told again; and what has just ended then is told by that one. What still lasts an hour after its event was
 * lost is told again, too.
 */
export class ConditionBoard {
  readonly #deps: ConditionBoardDeps;
  readonly #entries = new Map<string, Entry>();
  #timer: Timer | null = null;
  #looking: Promise<void> | null = null;
  #isDrained = false;

  constructor(deps: ConditionBoardDeps) {
    this.#deps = deps;
  }

  /** Looks at once, and then again and again until {@link drain}. */
  start(): void {
    this.#timer = this.#deps.clock.setTimer(LOOK_MS, () => this.start(), "tick");
    this.#looking ??= this.#look().finally(() => (this.#looking = null));
  }

  /** The conditions that have not ended, the oldest first. */
  standing(): readonly StandingCondition[] {
    return this.#lasting().map(({ condition, since }) => ({ ...condition, since }));
  }

  /** Tells somebody new of all that has not ended. */
  tellAgain(): void {
    for (const entry of this.#lasting()) {
      if (entry.isTold) this.#tellBegan(entry);
    }
  }

  /** Begins no more looks, and tells nothing of the one under way. Safe to call twice. */
  drain(): void {
    this.#isDrained = true;
    this.#timer?.cancel();
  }

  /**
   * Logs what was given up since the last look, and waits for a look under way: to be called when no more webhooks are
   * sent, and before the store is closed. Safe to call twice.
   */
  async close(): Promise<void> {
    this.drain();
    this.#tellGivenUp("at once");
    await this.#looking;
  }

  async #look(): Promise<void> {
    try {
      const found = await this.#deps.find();
      if (!this.#isDrained) this.#compare(found);
    } catch (error) {
      if (this.#isDrained) return;
      this.#deps.log.error({ err: error }, "the conditions of the daemon could not be looked at");
    }
  }

  #compare({ conditions: found, unknown }: Looked): void {
    const now = this.#deps.clock.monotonic();
    for (const entry of this.#lasting()) {
      if (unknown.has(entry.condition.name)) entry.foundAt = now;
    }
    const hasPlace = (condition: Condition): boolean =>
      this.#entries.has(keyOf(condition)) || this.#countOf(condition.name) < OF_A_NAME_MAX;
    const beyond = new Map<ConditionName, number>();
    for (const condition of found) {
      const { name } = condition;
      if (hasPlace(condition)) this.#note(condition, now);
      else beyond.set(name, (beyond.get(name) ?? 0) + 1);
    }
    for (const [name, count] of beyond) this.#note(toRest(name, count), now);
    for (const [key, entry] of this.#entries) {
      const unseenMs = now - entry.foundAt;
      entry.isOver = unseenMs >= OVER_AFTER_MS;
      if (!entry.isOver) this.#begin(entry, now);
      else if (this.#mayTell(entry)) this.#end(key, entry);
      else if (unseenMs >= OVER_AFTER_MS + HANDED_OVER_MS) this.#entries.delete(key);
    }
    this.#tellGivenUp("in time");
  }

  #note(condition: Condition, now: number): void {
    const key = keyOf(condition);
    const known = this.#entries.get(key);
    if (known !== undefined && !known.isOver) {
      known.condition = condition;
      known.foundAt = now;
    } else {
      // The oldest come first.
      this.#entries.delete(key);
      const times = { since: this.#deps.clock.now(), foundAt: now, lostAt: null };
      this.#entries.set(key, { condition, ...times, isTold: false, isOver: false });
    }
  }

  #lasting(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ isOver }) => !isOver);
  }

  #countOf(name: ConditionName): number {
    const standing = this.#lasting().map(({ condition }) => condition);
    return standing.filter((each) => each.name === name && each.subject !== null).length;
  }

  #begin(entry: Entry, now: number): void {
    if (!this.#mayTell(entry)) return;
    const { name, text, remedy } = entry.condition;
    if (!entry.isTold) {
      if (!LOGGED_ELSEWHERE.has(name)) this.#deps.log.warn({ ...factsOf(entry), remedy }, text);
      this.#tellBegan(entry);
    } else if (entry.lostAt !== null && now - entry.lostAt >= LOST_AGAIN_MS) {
      this.#tellBegan(entry);
    }
  }

  #tellBegan(entry: Entry): void {
    const { clock, tell } = this.#deps;
    entry.isTold = true;
    entry.lostAt = null;
    tell(toEvent(entry, "began", clock.now()), () => (entry.lostAt = clock.monotonic()));
  }

  #end(key: string, entry: Entry): void {
    this.#entries.delete(key);
    const { log, clock, tell } = this.#deps;
    const { name, text } = entry.condition;
    if (!LOGGED_ELSEWHERE.has(name)) log.info(factsOf(entry), `no longer so: ${text}`);
    // Nobody has heard of its beginning otherwise.
    if (entry.lostAt === null) tell(toEvent(entry, "ended", clock.now()));
  }

  #mayTell({ condition }: Entry): boolean {
    return !SEEN_BY_ALL.has(condition.name) || this.#deps.cluster.holds("sweep");
  }

  #tellGivenUp(when: "in time" | "at once"): void {
    const { log, clock, tell, takeGivenUp } = this.#deps;
    const givenUp = takeGivenUp(when);
    if (givenUp === null) return;
    const { count, hosts, hostsInAll } = givenUp;
    const what =
      `${count} ${count === 1 ? "webhook was" : "webhooks were"} given up after all retries, to ` +
      `${hostsInAll} ${hostsInAll === 1 ? "host" : "hosts"}`;
    const remedy = "fix the receivers, then send them again: postbackd admin delivery redeliver";
    log.warn({ hosts, remedy }, what);
    const about = { time: clock.now(), since: null, subject: null, what, remedy, hosts };
    tell({ type: "delivery.given_up", status: "happened", ...about });
  }
}

function keyOf({ name, subject }: Condition): string {
  return `${name} ${subject ?? ""}`;
}

/** Stands for those that have no place. */
function toRest(name: ConditionName, count: number): Condition {
  const text = `${name}: and ${count} more, besides the ${OF_A_NAME_MAX} that were told of`;
  return { name, subject: null, text, remedy: "mend those: then the others are told of" };
}

function factsOf({ condition: { name, subject }, since }: Entry) {
  const facts = { condition: name, since: new Date(since).toISOString() };
  return subject === null ? facts : { ...facts, subject };
}

function toEvent(
  { condition, since }: Entry,
  status: "began" | "ended",
  time: number,
): OperatorEvent {
  const { name: type, subject, text: what, remedy } = condition;
  return { type, status, time, since, subject, what, remedy, hosts: null };
}
