import type { UserData } from "../api/account.ts";
import type { ListedAttempt } from "../api/delivery.ts";
import type { TimelineDelivery } from "../api/timeline.ts";
import { createServiceClient } from "../deliver/service-client.ts";
import { backoffMs } from "../deliver/service-retry.ts";
import { readAuthorities } from "../deliver/trust.ts";
import { type Clock, wait } from "../domain/clock/clock.ts";
import { checkSignature, type SignatureVerdict } from "../domain/webhook/signature.ts";
import { AccountApi, DaemonUnreachable } from "./account-api.ts";
import {
  type Forwarded,
  Forwarder,
  type SignedBytes,
  type StartedAttempt,
  type WebhookSecrets,
  attemptRequest,
  isSignedAlike,
} from "./forwarder.ts";

/** Called with each event, in order. */
export interface ListenReport {
  /** At the begin, and whenever the account's secrets are others. */
  readonly secrets: (data: UserData) => void;
  readonly forwarded: (
    attempt: StartedAttempt,
    result: Forwarded & { readonly signature: SignatureVerdict },
  ) => void;
  /** The task of an attempt was erased before it could be asked for. */
  readonly gone: (attempt: StartedAttempt) => void;
  /** Once, however long it lasts. */
  readonly lost: (reason: string) => void;
  readonly back: () => void;
}

export interface ListenPlan {
  readonly url: URL;
  readonly key: string;
  readonly forwardTo: URL;
  /** Only attempts of tasks with these; null is any. */
  readonly type: string | null;
  readonly tag: string | null;
  /** File with authorities (PEM) to trust besides the system's. */
  readonly ca: string | null;
}

interface ListenParts {
  readonly clock: Clock;
  readonly report: ListenReport;
  readonly stop: AbortSignal;
}

/** Forwards attempts until it is stopped. Rejects with a DaemonRefusal, or a TlsFileError if `ca` has no authority. */
export async function listen(plan: ListenPlan, parts: ListenParts): Promise<void> {
  const { clock, stop } = parts;
  const authorities = plan.ca === null ? [] : readAuthorities({ path: plan.ca, name: "--ca" });
  const client = createServiceClient({ socketsMax: 2, authorities });
  const forwarder = new Forwarder(plan.forwardTo, { clock, authorities });
  const breakOff = (): void => forwarder.close();
  stop.addEventListener("abort", breakOff);
  try {
    const api = new AccountApi({ ...plan, client, clock, stop });
    await new Listener({ ...plan, ...parts, api, forwarder }).run();
  } finally {
    stop.removeEventListener("abort", breakOff);
    forwarder.close();
    client.close();
  }
}

export interface ListenerDeps extends ListenParts, Pick<ListenPlan, "type" | "tag"> {
  readonly api: Pick<AccountApi, "userData" | "attempts" | "timeline" | "taskBytes">;
  readonly forwarder: Pick<Forwarder, "send">;
}

/** An attempt that had not started yet, and when to look at it again. */
interface Scheduled {
  readonly attempt: ListedAttempt;
  readonly lookAt: number;
}

const LOOK_MS = 1000;
// A requested redelivery makes an attempt due earlier than shown.
const SCHEDULED_LOOK_MS = 2000;
const SCHEDULED_LOOKS_MAX = 50;
const RETRY_MS_MAX = 5000;

/**
 * Forwards every attempt that starts from now on, once, in the order in which attempts were scheduled; attempts of a
 * delivery in their own order. It keeps its place in the daemon's list of attempts, so that it misses none while the
 * daemon cannot be reached, and repeats none.
 */
export class Listener {
  readonly #deps: ListenerDeps;
  /** By delivery, of which one attempt at most is scheduled; those that were looked at last come last. */
  readonly #scheduled = new Map<string, Scheduled>();
  /** Listed, and not dealt with yet. */
  readonly #listed: ListedAttempt[] = [];
  #cursor: string | null = null;
  #secrets: WebhookSecrets = { current: "", next: null };
  #isLost = false;

  constructor(deps: ListenerDeps) {
    this.#deps = deps;
  }

  /** Settles when it is stopped; rejects with a {@link DaemonRefusal} when the daemon refuses the key. */
  async run(): Promise<void> {
    const { clock, stop } = this.#deps;
    await this.#persist(() => this.#begin());
    while (!stop.aborted) {
      await wait(LOOK_MS, { clock, signal: stop });
      await this.#persist(() => this.#look());
    }
  }

  /** Does a step again and again until the daemon has answered all that it asks. */
  async #persist(step: () => Promise<void>): Promise<void> {
    const { clock, stop, report } = this.#deps;
    for (let failures = 1; !stop.aborted; failures++) {
      try {
        await step();
        if (this.#isLost) report.back();
        this.#isLost = false;
        return;
      } catch (error) {
        if (stop.aborted) return;
        if (!(error instanceof DaemonUnreachable)) throw error;
        if (!this.#isLost) report.lost(error.message);
        this.#isLost = true;
        const ms = backoffMs(failures, { waitMsMax: RETRY_MS_MAX, random: Math.random() });
        await wait(ms, { clock, signal: stop });
      }
    }
  }

  async #begin(): Promise<void> {
    const { api } = this.#deps;
    const [data, page] = await Promise.all([api.userData(), api.attempts(null)]);
    this.#cursor = page.next_cursor;
    this.#takeSecrets(data);
    for (const attempt of page.attempts) if (this.#isWanted(attempt)) this.#keep(attempt);
  }

  async #look(): Promise<void> {
    await this.#drain();
    await this.#lookAtScheduled();
    for (let isMore = true; isMore && !this.#deps.stop.aborted;) {
      const page = await this.#deps.api.attempts(this.#cursor);
      this.#cursor = page.next_cursor;
      this.#listed.push(...page.attempts.filter((attempt) => this.#isWanted(attempt)));
      await this.#drain();
      isMore = page.more;
    }
  }

  async #lookAtScheduled(): Promise<void> {
    const now = this.#deps.clock.monotonic();
    const due = [...this.#scheduled.values()].filter(({ lookAt }) => lookAt <= now);
    for (const { attempt } of due.slice(0, SCHEDULED_LOOKS_MAX)) await this.#dealWithKept(attempt);
  }

  /** Deals with what is listed. An attempt whose forwarding throws stays for the next time. */
  async #drain(): Promise<void> {
    for (let [next] = this.#listed; next !== undefined; [next] = this.#listed) {
      if (this.#deps.stop.aborted) return;
      // The one before it has started, or there would not be this one.
      const before = this.#scheduled.get(deliveryOf(next));
      if (before !== undefined) await this.#dealWithKept(before.attempt);
      await this.#dealWith(next);
      this.#listed.shift();
    }
  }

  async #dealWith(attempt: ListedAttempt): Promise<void> {
    if (hasStarted(attempt)) await this.#forward(attempt);
    else this.#keep(attempt);
  }

  async #dealWithKept(attempt: ListedAttempt): Promise<void> {
    const { attempts } = await this.#deps.api.attempts(attempt.cursor, 1);
    const now = attempts.find(
      (each) => deliveryOf(each) === deliveryOf(attempt) && each.number === attempt.number,
    );
    if (now !== undefined && hasStarted(now)) await this.#forward(now);
    this.#scheduled.delete(deliveryOf(attempt));
    if (now !== undefined && !hasStarted(now)) this.#keep(now);
  }

  #keep(attempt: ListedAttempt): void {
    const lookAt = this.#deps.clock.monotonic() + SCHEDULED_LOOK_MS;
    this.#scheduled.set(deliveryOf(attempt), { attempt, lookAt });
  }

  /** Everything is asked before it is sent: what throws has not been sent. */
  async #forward(attempt: StartedAttempt): Promise<void> {
    const { forwarder, report, stop } = this.#deps;
    const found = await this.#find(attempt);
    if (found === null) {
      report.gone(attempt);
      return;
    }
    const { delivery, message } = found;
    let request = attemptRequest(attempt, { ...found, secrets: this.#secrets });
    if (!isSignedAlike(request, delivery)) {
      this.#takeSecrets(await this.#deps.api.userData());
      request = attemptRequest(attempt, { ...found, secrets: this.#secrets });
    }
    const { httpStatus, error } = await forwarder.send(request, delivery);
    if (stop.aborted) return;
    const { signature: given } = delivery.request;
    const signed = toReceived(delivery, message);
    const secret = this.#secrets.current;
    const signature = checkSignature({ signature: given, secret, message: signed });
    report.forwarded(attempt, { httpStatus, error, signature });
  }

  /** The delivery of an attempt and the bytes that it signs; null where its task has been erased. */
  async #find({ task_id: id, kind }: StartedAttempt) {
    const timeline = await this.#deps.api.timeline(id);
    const delivery = timeline?.deliveries.find((each) => each.kind === kind);
    if (delivery === undefined) return null;
    const message = await this.#messageOf(id, delivery);
    return message === null ? null : { delivery, message };
  }

  #messageOf(id: string, { kind, url, request }: TimelineDelivery): Promise<SignedBytes | null> {
    if (kind === "pingback") return Promise.resolve(url);
    // The timeline leaves out long bodies.
    const { text } = request.body;
    return text === null ? this.#deps.api.taskBytes(id) : Promise.resolve(text);
  }

  #takeSecrets(data: UserData): void {
    const { webhook_secret: current, webhook_secret_next: next } = data;
    if (current === this.#secrets.current && next === this.#secrets.next) return;
    this.#secrets = { current, next };
    this.#deps.report.secrets(data);
  }

  #isWanted(attempt: ListedAttempt): boolean {
    const { type, tag } = this.#deps;
    return (type === null || attempt.type === type) && (tag === null || attempt.tag === tag);
  }
}

function deliveryOf({ task_id: id, kind }: ListedAttempt): string {
  return `${id} ${kind}`;
}

function hasStarted(attempt: ListedAttempt): attempt is StartedAttempt {
  return attempt.started_at !== null;
}

function toReceived({ kind, url }: TimelineDelivery, message: SignedBytes) {
  if (kind === "pingback") return { kind: "url", url } as const;
  return { kind: "body", bytes: Buffer.from(message) } as const;
}
