import { createHash } from "node:crypto";

import { type ReceivedWebhook, isSignedWith } from "../kit/receiver.ts";
import type { Expectation } from "./ending-judge.ts";
import type { WorkerEvent } from "./fleet.ts";
import type { SeenAsk, SeenCancel, SeenClaim, TaskHistory } from "./lease-judge.ts";

/** A webhook that arrived, and the receiver's answer. */
export interface Arrival extends Pick<
  ReceivedWebhook,
  "taskId" | "kind" | "attempt" | "receivedAt"
> {
  readonly status: 200 | 500;
}

export interface PromisedTask {
  /** The key of its account. */
  readonly key: string;
  /** Null for tasks of workers. */
  readonly expected: Expectation | null;
}

const KINDS = ["postback", "pingback"] as const;

/**
 * The ledger that survives every crash: all promises and responses of the daemon, and all arrived webhooks. It is kept
 * here, in a process that is not killed.
 */
export class Ledger {
  readonly tasks = new Map<string, PromisedTask>();
  /** How many tasks each idempotency key stands for. */
  readonly promised = new Map<string, number>();
  readonly cancels = new Map<string, SeenCancel>();
  /** Tasks whose cancelling was acknowledged. */
  readonly cancelled = new Set<string>();
  /** Permanently completed tasks: the envelope that showed it, or the acknowledged result of a worker. */
  readonly finished = new Map<string, string>();
  readonly collected = new Set<string>();
  /** Deliveries that were shown as delivered, by webhook-id. */
  readonly delivered = new Set<string>();
  readonly arrivals: Arrival[] = [];
  /** Everything that must never happen, in words. */
  readonly faults: string[] = [];
  readonly #owing = new Set<string>();
  /** The hash of what the first attempt signed, by delivery. */
  readonly #signed = new Map<string, string>();
  /** Deliveries that the receiver accepted. */
  readonly #accepted = new Set<string>();
  readonly #mayForget: boolean;
  #missing = 0;

  /** `mayForget`: reported ends may be lost with their server; such tasks run again, and end at another time. */
  constructor({ mayForget = false }: { readonly mayForget?: boolean } = {}) {
    this.#mayForget = mayForget;
  }

  acknowledge(taskId: string, task: PromisedTask): void {
    if (this.tasks.has(taskId)) this.faults.push(`${taskId} was acknowledged twice`);
    this.tasks.set(taskId, task);
  }

  /** Nothing stops the task any more: it is to send a postback and a pingback. */
  owe(taskId: string): void {
    this.#owing.add(taskId);
    for (const kind of KINDS) if (!this.#accepted.has(`${taskId}-${kind}`)) this.#missing++;
  }

  /** Webhooks that are owed and that the receiver has not accepted. */
  get missing(): number {
    return this.#missing;
  }

  /** A request to cancel a task is sent; call it again when that is acknowledged. From then on nothing may be sent. */
  cancel(taskId: string, cancel: SeenCancel): void {
    this.cancels.set(taskId, cancel);
    if (cancel.acknowledgedAt === null) return;
    this.cancelled.add(taskId);
    const isSent = KINDS.some((kind) => this.#signed.has(`${taskId}-${kind}`));
    if (isSent) this.faults.push(`${taskId} was cancelled after its webhook`);
  }

  /** A webhook of the account with that secret arrived, and got a response with that status. */
  receive(
    webhook: ReceivedWebhook,
    { status, secret }: { readonly status: 200 | 500; readonly secret: string },
  ): void {
    const { taskId, kind, attempt, receivedAt } = webhook;
    this.arrivals.push({ taskId, kind, attempt, status, receivedAt });
    this.#check(webhook, secret);
    const delivery = `${taskId}-${kind}`;
    if (status !== 200 || this.#accepted.has(delivery)) return;
    this.#accepted.add(delivery);
    if (this.#owing.has(taskId)) this.#missing--;
  }

  #check(webhook: ReceivedWebhook, secret: string): void {
    const { taskId, kind, signed } = webhook;
    const delivery = `${taskId}-${kind}`;
    if (this.cancelled.has(taskId)) this.faults.push(`${delivery} came after the cancelling`);
    if (!isSignedWith(secret, webhook)) this.faults.push(`${delivery}: bad signature`);
    // The id stands in what is signed as it stands in the header, or the daemon mixed two tasks up.
    if (!signed.includes(kind === "postback" ? `"id":"${taskId}"` : taskId))
      this.faults.push(`${delivery} is another task's`);
    const hash = createHash("sha256").update(signed).digest("base64");
    const first = this.#signed.get(delivery);
    if (first === undefined) this.#signed.set(delivery, hash);
    else if (first !== hash && !this.#mayForget)
      this.faults.push(`${delivery} came again with another content`);
  }
}

// A daemon may still finish work for a connection that it lost.
const LINGER_MS = 1000;

/** A claim without a response: the daemon may have leased tasks of the types in that time. */
export interface LostClaim {
  readonly types: readonly string[];
  readonly from: number;
  readonly to: number;
}

interface OpenHistory {
  readonly id: string;
  type: string;
  readonly claims: SeenClaim[];
  readonly asks: SeenAsk[];
  changedAt: number;
  isJudged: boolean;
}

type EventOf<Kind extends WorkerEvent["kind"]> = Extract<WorkerEvent, { kind: Kind }>;

/** The record that outlives workers and daemons: every lease, with the requests and answers for it. */
export class LeaseLedger {
  readonly lostClaims: LostClaim[] = [];
  /** Violations that are visible immediately. */
  readonly faults: string[] = [];
  /** Leases, responses by outcome (also to heartbeats), and refused invalid requests. */
  readonly count = { claims: 0, ok: 0, lost: 0, cancelled: 0, refused: 0 };
  readonly #ledger: Ledger;
  readonly #histories = new Map<string, OpenHistory>();
  /** By process and number. */
  readonly #openClaims = new Map<string, EventOf<"claiming">>();
  readonly #openAsks = new Map<string, readonly { taskId: string; ask: SeenAsk }[]>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Processes a report of a worker process; `worker` names the process. */
  take(worker: string, event: WorkerEvent): void {
    const key = "number" in event ? `${worker} ${event.number}` : worker;
    switch (event.kind) {
      case "claiming":
        return void this.#openClaims.set(key, event);
      case "claimed":
        return this.#takeClaimed(key, event);
      case "unclaimed":
        return this.#loseClaim(key, event.at);
      case "asking":
        return this.#takeAsking(key, event);
      case "answered":
        return this.#takeAnswer(key, event);
      case "fault":
        return void this.faults.push(event.text);
      case "refused":
        this.count.refused++;
    }
  }

  /** A worker process is gone: the responses for which it waited are lost. */
  gone(worker: string, at: number): void {
    const own = [...this.#openClaims.keys()].filter((key) => key.startsWith(`${worker} `));
    for (const key of own) this.#loseClaim(key, at);
  }

  history(id: string): TaskHistory {
    const { claims, asks } = this.#histories.get(id) ?? { claims: [], asks: [] };
    return { id, claims, asks, cancel: this.#ledger.cancels.get(id) ?? null };
  }

  /** Histories that have changed since the last call and not after `before`, each with its type. */
  *settled(before: number): Generator<{ readonly type: string; readonly history: TaskHistory }> {
    for (const open of this.#histories.values()) {
      if (open.isJudged || open.changedAt > before) continue;
      open.isJudged = true;
      yield { type: open.type, history: this.history(open.id) };
    }
  }

  #takeClaimed(key: string, { at, tasks }: EventOf<"claimed">): void {
    const claim = this.#openClaims.get(key);
    if (claim === undefined) throw new Error("a claim was answered that was not made");
    this.#openClaims.delete(key);
    for (const { id, type, leaseId, expiresAt } of tasks) {
      this.count.claims++;
      if (!claim.types.includes(type)) this.faults.push(`${id} is of another type than asked for`);
      const open = this.#changed(id, at);
      open.type = type;
      open.claims.push({ leaseId, sentAt: claim.at, answeredAt: at, expiresAt });
    }
  }

  #loseClaim(key: string, at: number): void {
    const claim = this.#openClaims.get(key);
    if (claim === undefined) return;
    this.#openClaims.delete(key);
    this.lostClaims.push({ types: claim.types, from: claim.at, to: at + LINGER_MS });
  }

  #takeAsking(key: string, { what, at, items }: EventOf<"asking">): void {
    const asks = items.map(({ id, ...item }) => {
      const ask = { what, ...item, sentAt: at, answeredAt: null, outcome: null };
      this.#changed(id, at).asks.push(ask);
      return { taskId: id, ask };
    });
    this.#openAsks.set(key, asks);
  }

  #takeAnswer(key: string, { at, outcomes }: EventOf<"answered">): void {
    const asks = this.#openAsks.get(key) ?? [];
    this.#openAsks.delete(key);
    for (const [i, { taskId, ask }] of asks.entries()) {
      const outcome = outcomes[i];
      if (outcome === undefined) throw new Error("an outcome is missing");
      ask.answeredAt = at;
      ask.outcome = outcome;
      this.count[outcome]++;
      this.#changed(taskId, at);
      if (ask.what === "complete" && outcome === "ok")
        this.#ledger.finished.set(taskId, ask.result ?? "null");
    }
  }

  /** The task's history, changed now. Requests for a task that was never claimed have no type to judge by. */
  #changed(id: string, at: number): OpenHistory {
    let open = this.#histories.get(id);
    if (open === undefined) {
      open = { id, type: "", claims: [], asks: [], changedAt: at, isJudged: false };
      this.#histories.set(id, open);
    }
    open.changedAt = at;
    open.isJudged = false;
    return open;
  }
}
