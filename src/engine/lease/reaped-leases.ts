import { LEASE_LOSSES_MAX } from "../../domain/lease/lease.ts";
import type { Logger } from "../../domain/log.ts";
import type { Lease, LeaseEnd } from "../../store/store.ts";

interface Group {
  readonly type: string;
  readonly message: string;
  readonly ids: string[];
}

// A worker may vanish with thousands of leases: the line must stay readable.
const IDS_MAX = 10;

/**
 * Leases that the daemon ended by itself, for the operator's log: one line for each type and kind of end, with the
 * number of leases and the first ten tasks.
 */
export class ReapedLeases {
  readonly #groups = new Map<string, Group>();

  /** Notes that a lease was ended so. */
  note({ id, type }: Pick<Lease, "id" | "type">, end: Pick<LeaseEnd, "how" | "sequel">): void {
    const message = messageOf(end);
    const key = `${type} ${message}`;
    const group = this.#groups.get(key) ?? { type, message, ids: [] };
    group.ids.push(id);
    this.#groups.set(key, group);
  }

  /** Logs what was noted since the last time. */
  tell(log: Logger): void {
    for (const { type, message, ids } of this.#groups.values()) {
      log.warn({ type, leases: ids.length, tasks: ids.slice(0, IDS_MAX) }, message);
    }
    this.#groups.clear();
  }
}

function messageOf({ how, sequel }: Pick<LeaseEnd, "how" | "sequel">): string {
  if (how === "timed_out") return "runs of workers went on past their type's timeout";
  return sequel.kind === "finish"
    ? `tasks failed because ${LEASE_LOSSES_MAX} workers in a row vanished with them`
    : "leases ran out without a heartbeat; their tasks are queued again";
}
