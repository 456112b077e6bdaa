import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";

import { z } from "zod";

import { type Answer, type CarefulRequest, DaemonAddress } from "../kit/client.ts";
import { type DaemonFile, type Program, createDaemonFile, startDaemon } from "../kit/daemon.ts";
import { Random } from "../kit/random.ts";
import {
  type ReceivedWebhook,
  type WebhookUrls,
  failingAtFirst,
  openReceiver,
  webhookUrls,
} from "../kit/receiver.ts";
import { Client, EAGER, type Post, lightTasks } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import { finish, judgeFinished } from "../soak/verdict.ts";
import { type TracedLife, traceEnd, tracedProgram } from "./disk-record.ts";

/** The order of a recording. */
export interface RecordingOptions {
  readonly program: Program;
  /** Where; it must exist, and be empty. */
  readonly folder: string;
  /** kill -9 so often, each time under load: what a killed daemon has not synced, the next one finds. */
  readonly kills: number;
  /** How long each daemon is under load. */
  readonly loadMs: number;
  /** Nothing may stand still for longer. */
  readonly stallMsMax: number;
}

/** Everything that is known of a database that was written under load. */
export interface Recording {
  readonly file: DaemonFile;
  /** The receiver's port. */
  readonly receiverPort: number;
  readonly lives: readonly RecordedLife[];
  readonly history: readonly HistoryEntry[];
}

const SETTINGS = { more: '\n[webhooks]\nretry_after = ["1s", "1s", "1s"]\n' };

/** How the client of recordings works. */
export const HABIT = { ...EAGER, plan: lightTasks };

/** An eighth of the tasks has receivers that fail at first. */
export const statusOf = failingAtFirst(/[01]$/, 1);

/**
 * Records a database from its first byte on, under load, through several kills, until everything is done; and keeps the
 * recording in the folder. Rejects when the daemon breaks a promise already here.
 */
export async function record(options: RecordingOptions): Promise<Recording> {
  const { kills, loadMs, program } = options;
  const folder = realpathSync(options.folder);
  const lives = new LifeRecorder(program, folder);
  const made = await createDaemonFile({ program: lives.program(), folder }, SETTINGS);
  await lives.end(made.folder, null);
  // The clients and the receiver outlive every kill.
  const { webhookSecret: secret } = made.account;
  const [ledger, history, address] = [new Ledger(), new Array<HistoryEntry>(), new DaemonAddress()];
  await using receiver = await openReceiver(
    (webhook, status) => {
      ledger.receive(webhook, { status, secret });
      history.push({ kind: "webhook", webhook, status });
    },
    { statusOf },
  );
  const world = { file: made, webhooks: webhookUrls(receiver), address, ledger, history };
  const posting = new AbortController();
  const load = runLoad(world, posting.signal);
  load.catch(() => {}); // It is awaited below.
  for (let count = 0; count <= kills; count++) {
    await using daemon = await startDaemon({ ...made, program: lives.program() });
    address.moveTo(daemon);
    await sleep(loadMs);
    daemon.requireRunning();
    if (count === kills) {
      posting.abort();
      await load;
      await finish(daemon, { database: made.database, ledger, stallMsMax: options.stallMsMax });
    }
    address.url = null;
    await (count === kills ? daemon.stop() : daemon.kill());
    await lives.end(made.folder, count === kills ? null : Date.now());
  }
  const killedAt = lives.all.flatMap((life) => life.killedAt ?? []);
  const { faults } = judgeFinished(made.database, { ledger, killedAt });
  if (faults.length > 0)
    throw new Error(`the record has faults before any power is cut:\n${faults.join("\n")}`);
  const { port: receiverPort } = receiver;
  const recording = { file: { ...made, program }, receiverPort, lives: lives.all, history };
  writeFileSync(join(folder, RECORDING_FILE), serialize(recording));
  return recording;
}

/** Settles when the signal has come and everything is answered. */
async function runLoad(
  world: {
    readonly file: DaemonFile;
    readonly webhooks: WebhookUrls;
    readonly address: DaemonAddress;
    readonly ledger: Ledger;
    readonly history: HistoryEntry[];
  },
  signal: AbortSignal,
): Promise<void> {
  const { file, webhooks, address, ledger, history } = world;
  const { account } = file;
  const observer = new Observer({ apiKey: account.key, address, history });
  const client = new Client({
    ...{ account, address, webhooks, ledger, random: new Random(1), habit: HABIT },
    onPost: ({ kind, key, tasks }) => history.push({ kind, key, tasks, sentAt: Date.now() }),
    onDone: (work, { requestId, status }) => {
      if (work.kind === "cancel") {
        history.push({ kind: "cancelled", id: work.id, hasRun: status === 409, requestId });
        return;
      }
      history.push({ kind: "accepted", key: work.key, ids: work.ids, requestId });
      observer.note((work.ids ?? []).filter((_, i) => work.tasks[i]?.cancelAfterMs === null));
    },
  });
  await Promise.all([client.run(signal), observer.run(signal)]);
}

const RECORDING_FILE = "recording";

/** Whether a folder has a recording. */
export function hasRecording(folder: string): boolean {
  return existsSync(join(folder, RECORDING_FILE));
}

/** Reads a recording that {@link record} left in a folder, which must not have been moved. */
export function loadRecording(folder: string, program: Program): Recording {
  // What was written there is one.
  const recording = deserialize(readFileSync(join(folder, RECORDING_FILE))) as Recording;
  return { ...recording, file: { ...recording.file, program } };
}

/** Every answer of the daemon has an X-Request-Id, which says when it came. */
interface Answered {
  readonly requestId: string;
}

/** An action of a client or the receiver, or an answer to one, while the daemon was recorded. */
export type HistoryEntry =
  /** Sent for the first time. */
  | (Pick<Post, "kind" | "key" | "tasks"> & { readonly sentAt: number })
  | (Answered & { readonly kind: "accepted"; readonly key: string; readonly ids: Post["ids"] })
  /** `hasRun`: it was refused because the task had run before. */
  | (Answered & { readonly kind: "cancelled"; readonly id: string; readonly hasRun: boolean })
  /** `text` is the envelope. */
  | (Answered & {
      readonly kind: "finished";
      readonly id: string;
      readonly text: string;
      readonly isCollected: boolean;
    })
  /** A delivery is on record as delivered; its webhook-id. */
  | (Answered & { readonly kind: "delivered"; readonly webhookId: string })
  | (Answered & { readonly kind: "key-made" | "key-revoked"; readonly key: string })
  | { readonly kind: "key-revocation"; readonly key: string; readonly sentAt: number }
  /** Came and was answered. */
  | { readonly kind: "webhook"; readonly webhook: ReceivedWebhook; readonly status: 200 | 500 };

/** One process that was recorded: the command that made the account, then one daemon after the other. */
export interface RecordedLife extends TracedLife {
  /** When it was killed, in epoch milliseconds; null for those that ended by themselves. */
  readonly killedAt: number | null;
}

const TRACE_MS_MAX = 20_000;

/** Gives each process a trace of its own, and copies the database's files when it has ended. */
export class LifeRecorder {
  readonly all: RecordedLife[] = [];
  readonly #program: Program;
  readonly #folder: string;

  constructor(program: Program, folder: string) {
    this.#program = program;
    this.#folder = folder;
  }

  /** The program for the next process. */
  program(): Program {
    return tracedProgram(this.#program, this.#traceFile);
  }

  /** Call it when the process has ended, with the folder of the database. */
  async end(daemonFolder: string, killedAt: number | null): Promise<void> {
    const traceFile = this.#traceFile;
    await traceEnd(traceFile, TRACE_MS_MAX);
    const snapshot = join(this.#folder, `life-${this.all.length}`);
    mkdirSync(snapshot);
    for (const name of readdirSync(daemonFolder))
      copyFileSync(join(daemonFolder, name), join(snapshot, name));
    this.all.push({ traceFile, snapshot, killedAt });
  }

  get #traceFile(): string {
    return join(this.#folder, `life-${this.all.length}.strace`);
  }
}

const finishedTask = z.object({ tasks: z.tuple([z.object({ state: z.string() })]) });
const deliveryList = z.object({
  deliveries: z.array(z.object({ delivery_id: z.string(), state: z.string() })),
});
const madeKey = z.object({ key: z.object({ key_id: z.string(), key: z.string() }) });

const LANES = 4;
const IDLE_MS = 5;
const LOOK_AGAIN_MS = 100;
const KEY_PAUSE_MS = 20;
const KEYS = "/v1/appendix/keys";

/**
 * A client that looks at what became of tasks, collects every second one, and makes and revokes keys. It keeps what it
 * was told: what was shown once stays so.
 */
export class Observer {
  readonly #address: DaemonAddress;
  readonly #apiKey: string;
  readonly #history: HistoryEntry[];
  readonly #ids: string[] = [];
  /** Finished tasks whose webhooks had not all arrived at the last look, the earliest look first. */
  readonly #undelivered: { readonly id: string; readonly lookedAt: number }[] = [];
  #looks = 0;

  constructor(deps: {
    readonly address: DaemonAddress;
    readonly apiKey: string;
    readonly history: HistoryEntry[];
  }) {
    this.#address = deps.address;
    this.#apiKey = deps.apiKey;
    this.#history = deps.history;
  }

  /** Tasks to look at. */
  note(ids: readonly string[]): void {
    this.#ids.push(...ids);
  }

  /** Looks at one task after the other, at whatever daemon there is, until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const again = async (act: () => Promise<void>, pauseMs: number): Promise<void> => {
      for (; !signal.aborted; await sleep(pauseMs)) await act();
    };
    const looks = Array.from({ length: LANES }, () => again(() => this.#lookAtNext(), IDLE_MS));
    await Promise.all([...looks, again(() => this.#changeKeys(), KEY_PAUSE_MS)]);
  }

  async #lookAtNext(): Promise<void> {
    const [first] = this.#undelivered;
    if (first !== undefined && first.lookedAt < performance.now() - LOOK_AGAIN_MS) {
      this.#undelivered.shift();
      await this.#lookAtDeliveries(first.id);
      return;
    }
    // The newest, because there are more than can be looked at.
    const id = this.#ids.pop();
    if (id === undefined) return;
    const isCollected = this.#looks++ % 2 === 0;
    const query = isCollected ? "" : "?collect=false";
    const headers = { prefer: "wait=5" };
    const task = await this.#call(`/v1/tasks/task_get/${id}${query}`, { method: "GET", headers });
    if (task === null) return;
    const { text, requestId } = task;
    const [{ state }] = finishedTask.parse(JSON.parse(text)).tasks;
    if (state !== "completed") return;
    this.#history.push({ kind: "finished", id, text, isCollected, requestId });
    this.#undelivered.push({ id, lookedAt: performance.now() });
  }

  async #lookAtDeliveries(id: string): Promise<void> {
    const list = await this.#call(`/v1/tasks/deliveries/${id}`, { method: "GET" });
    if (list === null) return;
    const { requestId } = list;
    const { deliveries } = deliveryList.parse(JSON.parse(list.text));
    for (const { delivery_id: webhookId, state } of deliveries) {
      if (state === "delivered") this.#history.push({ kind: "delivered", webhookId, requestId });
    }
    if (deliveries.some(({ state }) => state !== "delivered"))
      this.#undelivered.push({ id, lookedAt: performance.now() });
  }

  async #changeKeys(): Promise<void> {
    const made = await this.#call(KEYS, { body: "{}" });
    if (made === null) return;
    const { key_id: keyId, key } = madeKey.parse(JSON.parse(made.text)).key;
    this.#history.push({ kind: "key-made", key, requestId: made.requestId });
    await sleep(KEY_PAUSE_MS);
    this.#history.push({ kind: "key-revocation", key, sentAt: Date.now() });
    const revoked = await this.#call(`${KEYS}/${keyId}`, { method: "DELETE" });
    if (revoked === null) return;
    this.#history.push({ kind: "key-revoked", key, requestId: revoked.requestId });
  }

  /** Null when the connection broke. */
  async #call(path: string, request: Omit<CarefulRequest, "secret">): Promise<Answer | null> {
    const answer = await this.#address.try(path, { ...request, secret: this.#apiKey });
    if (answer === null || answer.status === 200) return answer;
    throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
  }
}
