import { z } from "zod";

import type { CarefulAnswer } from "../kit/careful-call.ts";
import { DaemonAddress } from "../kit/daemon-address.ts";
import type { AskItem, AskKind, ClaimedTask, Outcome, WorkerEvent } from "./worker-event.ts";

const claimed = z.object({
  tasks: z.array(
    z.object({
      id: z.string(),
      type: z.string(),
      lease_id: z.string(),
      lease_expires_at: z.iso.datetime(),
      run: z.number(),
    }),
  ),
});

const answered = z.object({
  tasks: z.array(z.object({ id: z.unknown(), outcome: z.enum(["ok", "lost", "cancelled"]) })),
});

/** The worker protocol of the soak's worker processes: they report every request before and after. */
export class WorkerApi {
  readonly address = new DaemonAddress();
  readonly #token: string;
  readonly #report: (event: WorkerEvent) => void;
  #number = 0;

  constructor(token: string, report: (event: WorkerEvent) => void) {
    this.#token = token;
    this.#report = report;
  }

  /** Null when there was no answer, or none but that the daemon takes nothing now. */
  async claim(wish: {
    readonly types: readonly string[];
    readonly max: number;
    readonly wait_seconds: number;
  }): Promise<readonly ClaimedTask[] | null> {
    const number = this.#number++;
    this.#report({ kind: "claiming", number, at: Date.now(), types: wish.types });
    const answer = await this.#served("claim", wish);
    if (answer === null) {
      this.#report({ kind: "unclaimed", number, at: Date.now() });
      return null;
    }
    const tasks = claimed.parse(JSON.parse(answer)).tasks.map((task) => {
      const { id, type, lease_id: leaseId, lease_expires_at: expiresAt } = task;
      return { id, type, leaseId, expiresAt: Date.parse(expiresAt) };
    });
    this.#report({ kind: "claimed", number, at: Date.now(), tasks });
    return tasks;
  }

  /** As {@link claim}; outcomes in the order of the items. */
  async ask(what: AskKind, items: readonly AskItem[]): Promise<readonly Outcome[] | null> {
    const number = this.#number++;
    this.#report({ kind: "asking", number, at: Date.now(), what, items });
    const list = what === "heartbeat" ? "leases" : "tasks";
    const answer = await this.#served(what, { [list]: items.map(toJson) });
    if (answer === null) return null;
    const { tasks } = answered.parse(JSON.parse(answer));
    const isInOrder = items.every(({ id }, i) => tasks[i]?.id === id);
    if (!isInOrder || tasks.length !== items.length) {
      const text = `${what} was not answered in the order asked: ${answer}`;
      this.#report({ kind: "fault", text });
      return null;
    }
    const outcomes = tasks.map(({ outcome }) => outcome);
    this.#report({ kind: "answered", number, at: Date.now(), outcomes });
    return outcomes;
  }

  /** Sends an invalid request. */
  async offend(path: string, body: string): Promise<void> {
    const answer = await this.#send(path, body);
    if (answer === null) return;
    const isRefused = answer.status >= 400 && answer.status < 500;
    if (isRefused) this.#report({ kind: "refused" });
    else this.#report({ kind: "fault", text: `${path} ${body}: ${answer.status} ${answer.text}` });
  }

  async #served(operation: string, body: unknown): Promise<string | null> {
    const answer = await this.#send(operation, JSON.stringify(body));
    if (answer === null) return null;
    if (answer.status === 200) return answer.text;
    this.#report({ kind: "fault", text: `${operation}: ${answer.status} ${answer.text}` });
    return null;
  }

  #send(operation: string, body: string): Promise<CarefulAnswer | null> {
    return this.address.try(`/v1/worker/${operation}`, { secret: this.#token, body });
  }
}

function toJson({ id, leaseId, result, message, retry }: AskItem): object {
  return {
    id,
    lease_id: leaseId,
    ...(result !== undefined && { result: JSON.parse(result) }),
    ...(message !== undefined && { message }),
    ...(retry !== undefined && { retry }),
  };
}
