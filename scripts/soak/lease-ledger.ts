import type { SeenAsk, SeenCancel, SeenClaim, TaskHistory } from "./lease-judge.ts";
import type { WorkerEvent } from "./worker-event.ts";

// A daemon may still finish work for a connection that it lost.
const LINGER_MS = 1000;

/** A claim whose answer nobody saw: the daemon may have handed out tasks of these types in that time. */
export interface LostClaim {
  readonly types: readonly string[];
  readonly from: number;
  readonly to: number;
}

/** How much workers did. */
export interface LeaseCount {
  readonly claims: number;
  readonly completed: number;
  /** Answers by outcome, heartbeats included. */
  readonly ok: number;
  readonly lost: number;
  readonly cancelled: number;
  /** Requests that were no requests, each refused. */
  readonly refused: number;
}

interface OpenHistory {
  readonly id: string;
  readonly type: string;
  readonly claims: SeenClaim[];
  readonly asks: SeenAsk[];
  changedAt: number;
  isJudged: boolean;
}

interface OpenAsk {
  readonly taskId: string;
  readonly ask: SeenAsk;
}

interface OpenClaim {
  readonly types: readonly string[];
  readonly at: number;
}

/** The record that outlives workers and daemons: every lease, with the requests and answers for it. */
export class LeaseLedger {
  readonly #histories = new Map<string, OpenHistory>();
  readonly #cancels = new Map<string, SeenCancel>();
  /** By process and number. */
  readonly #openClaims = new Map<string, OpenClaim>();
  readonly #openAsks = new Map<string, readonly OpenAsk[]>();
  readonly #lostClaims: LostClaim[] = [];
  readonly #completed = new Map<string, string>();
  readonly #faults: string[] = [];
  readonly #outcomes = { ok: 0, lost: 0, cancelled: 0 };
  #claims = 0;
  #refused = 0;

  /** Takes what a worker process tells; `worker` names the process. */
  take(worker: string, event: WorkerEvent): void {
    switch (event.kind) {
      case "claiming":
        this.#openClaims.set(`${worker} ${event.number}`, event);
        return;
      case "claimed":
        this.#takeClaimed(`${worker} ${event.number}`, event);
        return;
      case "unclaimed":
        this.#loseClaim(`${worker} ${event.number}`, event.at);
        return;
      case "asking":
        this.#takeAsking(`${worker} ${event.number}`, event);
        return;
      case "answered":
        this.#takeAnswer(`${worker} ${event.number}`, event);
        return;
      case "fault":
        this.#faults.push(event.text);
        return;
      case "refused":
        this.#refused++;
    }
  }

  /** A worker process is gone: nobody will see the answers that it waited for. */
  gone(worker: string, at: number): void {
    const own = [...this.#openClaims.keys()].filter((key) => key.startsWith(`${worker} `));
    for (const key of own) this.#loseClaim(key, at);
  }

  /** A client asks to cancel a task; to be told again when that is acknowledged. */
  cancel(taskId: string, cancel: SeenCancel): void {
    this.#cancels.set(taskId, cancel);
  }

  /** Results by task whose completion was answered ok. */
  get completed(): ReadonlyMap<string, string> {
    return this.#completed;
  }

  get lostClaims(): readonly LostClaim[] {
    return this.#lostClaims;
  }

  /** Everything that must never happen and is seen at once. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  get count(): LeaseCount {
    const { size: completed } = this.#completed;
    return { claims: this.#claims, completed, ...this.#outcomes, refused: this.#refused };
  }

  /** All that was seen of a task. */
  history(id: string): TaskHistory {
    const { claims, asks } = this.#histories.get(id) ?? { claims: [], asks: [] };
    return { id, claims, asks, cancel: this.#cancels.get(id) ?? null };
  }

  /** Histories that have changed since the last call and not after `before`, each with its type. */
  *settled(before: number): Generator<{ readonly type: string; readonly history: TaskHistory }> {
    for (const open of this.#histories.values()) {
      if (open.isJudged || open.changedAt > before) continue;
      open.isJudged = true;
      yield { type: open.type, history: this.history(open.id) };
    }
  }

  #takeClaimed(key: string, { at, tasks }: Extract<WorkerEvent, { kind: "claimed" }>): void {
    const claim = this.#openClaims.get(key);
    if (claim === undefined) throw new Error("a claim was answered that was not made");
    this.#openClaims.delete(key);
    for (const { id, type, leaseId, expiresAt } of tasks) {
      this.#claims++;
      if (!claim.types.includes(type)) this.#faults.push(`${id} is of another type than asked for`);
      const seen = { leaseId, sentAt: claim.at, answeredAt: at, expiresAt };
      this.#open({ id, type, at }).claims.push(seen);
    }
  }

  #loseClaim(key: string, at: number): void {
    const claim = this.#openClaims.get(key);
    if (claim === undefined) return;
    this.#openClaims.delete(key);
    this.#lostClaims.push({ types: claim.types, from: claim.at, to: at + LINGER_MS });
  }

  #takeAsking(key: string, event: Extract<WorkerEvent, { kind: "asking" }>): void {
    const { what, at, items } = event;
    const asks = items.map(({ id, ...item }) => {
      const ask = { what, ...item, sentAt: at, answeredAt: null, outcome: null };
      this.#open({ id, type: null, at }).asks.push(ask);
      return { taskId: id, ask };
    });
    this.#openAsks.set(key, asks);
  }

  #takeAnswer(key: string, { at, outcomes }: Extract<WorkerEvent, { kind: "answered" }>): void {
    const asks = this.#openAsks.get(key) ?? [];
    this.#openAsks.delete(key);
    for (const [i, { taskId, ask }] of asks.entries()) {
      const outcome = outcomes[i];
      if (outcome === undefined) throw new Error("an outcome is missing");
      ask.answeredAt = at;
      ask.outcome = outcome;
      this.#outcomes[outcome]++;
      this.#open({ id: taskId, type: null, at });
      if (ask.what === "complete" && outcome === "ok") {
        this.#completed.set(taskId, ask.result ?? "null");
      }
    }
  }

  /** The task's history, changed now. Asks for a task that nobody claimed have none to judge by. */
  #open(change: {
    readonly id: string;
    readonly type: string | null;
    readonly at: number;
  }): OpenHistory {
    const { id, type, at } = change;
    let open = this.#histories.get(id);
    if (open === undefined) {
      open = { id, type: type ?? "", claims: [], asks: [], changedAt: at, isJudged: false };
      this.#histories.set(id, open);
    }
    open.changedAt = at;
    open.isJudged = false;
    return open;
  }
}
