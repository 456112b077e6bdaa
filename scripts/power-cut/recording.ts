import { cpSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { type Answer, type CarefulRequest, DaemonAddress } from "../kit/client.ts";
import { type DaemonFile, type Program, createDaemonFile, startDaemon } from "../kit/daemon.ts";
import { Random } from "../kit/random.ts";
import { failingAtFirst, openReceiver, webhookUrls } from "../kit/receiver.ts";
import { Client, EAGER, type Post, bookPost, lightTasks } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import { finish, judgeFinished } from "../soak/verdict.ts";
import { type TracedLife, traceEnd, tracedProgram } from "./disk-record.ts";

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
  readonly receiverPort: number;
  readonly lives: readonly RecordedLife[];
  readonly history: readonly HistoryEntry[];
}

/** The requests of clients and the promises of the daemon up to a moment. */
export class Book {
  /** In epoch milliseconds. */
  readonly at: number;
  readonly ledger = new Ledger();
  /** By key; `ids` is null without a response. */
  readonly posts = new Map<string, Post>();
  /** Tasks whose cancelling had a response. */
  readonly cancels = new Set<string>();
  readonly revokedKeys = new Set<string>();
  /** Keys without a request to revoke them. */
  readonly validKeys = new Set<string>();

  constructor(at: number) {
    this.at = at;
  }
}

/**
 * A request or a promise. The moment of a request is the time when the client sent it, in epoch milliseconds. The moment
 * of a promise names what the daemon wrote: the X-Request-Id of a response, or a webhook-id and attempt.
 */
interface HistoryEntry {
  readonly moment: number | string;
  readonly note: (book: Book) => void;
}

const SETTINGS = { more: '\n[webhooks]\nretry_after = ["1s", "1s", "1s"]\n' };

/** How the client of recordings works. */
export const HABIT = { ...EAGER, plan: lightTasks };

/** An eighth of the tasks has receivers that fail at first. */
export const statusOf = failingAtFirst(/[01]$/, 1);

/**
 * Records a database from its first byte on, under load, through several kills, until everything is done. Rejects when
 * the daemon breaks a promise already here.
 */
export async function record(options: RecordingOptions): Promise<Recording> {
  const { kills, loadMs, program, stallMsMax } = options;
  const folder = realpathSync(options.folder);
  const lives = new LifeRecorder(program, folder);
  const made = await createDaemonFile({ program: lives.program(), folder }, SETTINGS);
  const { database, account } = made;
  await lives.end(made.folder, null);
  // The clients and the receiver outlive every kill.
  const { key: apiKey, webhookSecret: secret } = account;
  const [ledger, history, address] = [new Ledger(), new Array<HistoryEntry>(), new DaemonAddress()];
  await using receiver = await openReceiver(
    (webhook, status) => {
      ledger.receive(webhook, { status, secret });
      const moment = `${webhook.taskId}-${webhook.kind} ${webhook.attempt}`;
      history.push({ moment, note: (book) => book.ledger.receive(webhook, { status, secret }) });
    },
    { statusOf },
  );
  const observer = new Observer({ apiKey, address, history });
  const client = new Client({
    ...{ account, address, webhooks: webhookUrls(receiver), ledger, random: new Random(1) },
    habit: HABIT,
    ...noting(history, { apiKey, onAccepted: (ids) => observer.note(ids) }),
  });
  const posting = new AbortController();
  const load = Promise.all([client.run(posting.signal), observer.run(posting.signal)]);
  load.catch(() => {}); // It is awaited below.
  for (let count = 0; count <= kills; count++) {
    await using daemon = await startDaemon({ ...made, program: lives.program() });
    address.moveTo(daemon);
    await sleep(loadMs);
    daemon.requireRunning();
    if (count === kills) {
      posting.abort();
      await load;
      await finish(daemon, { database, ledger, stallMsMax });
    }
    address.url = null;
    await (count === kills ? daemon.stop() : daemon.kill());
    await lives.end(made.folder, count === kills ? null : Date.now());
  }
  const killedAt = lives.all.flatMap((life) => life.killedAt ?? []);
  const { faults } = judgeFinished(database, { ledger, killedAt });
  if (faults.length > 0)
    throw new Error(`the record has faults before any power is cut:\n${faults.join("\n")}`);
  return { file: { ...made, program }, receiverPort: receiver.port, lives: lives.all, history };
}

/** Writes the requests of a client, and the first responses to them, into the history. */
function noting(
  history: HistoryEntry[],
  to: { readonly apiKey: string; readonly onAccepted: (ids: readonly string[]) => void },
): Pick<ConstructorParameters<typeof Client>[0], "onPost" | "onDone"> {
  return {
    onPost: ({ kind, key, tasks }) => {
      const post = { kind, key, tasks, ids: null, wasCutOff: true };
      history.push({ moment: Date.now(), note: ({ posts }) => void posts.set(key, { ...post }) });
    },
    onDone: (work, { requestId: moment, status }) => {
      if (work.kind === "cancel") {
        const note = ({ ledger, cancels, at }: Book): void => {
          cancels.add(work.id);
          if (status === 409) ledger.owe(work.id);
          else ledger.cancel(work.id, { sentAt: at, acknowledgedAt: at });
        };
        history.push({ moment, note });
        return;
      }
      const post = { ...work, wasCutOff: false };
      const note = ({ ledger, posts }: Book): void => {
        posts.set(post.key, { ...post });
        bookPost(post, { ledger, apiKey: to.apiKey });
      };
      history.push({ moment, note });
      to.onAccepted((post.ids ?? []).filter((_, i) => post.tasks[i]?.cancelAfterMs === null));
    },
  };
}

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
    return tracedProgram(this.#program, `${this.#next}.strace`);
  }

  /** Call it when the process has ended, with the folder of the database. */
  async end(daemonFolder: string, killedAt: number | null): Promise<void> {
    const [traceFile, snapshot] = [`${this.#next}.strace`, this.#next];
    await traceEnd(traceFile, TRACE_MS_MAX);
    cpSync(daemonFolder, snapshot, { recursive: true });
    this.all.push({ traceFile, snapshot, killedAt });
  }

  get #next(): string {
    return join(this.#folder, `life-${this.all.length}`);
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

interface ObserverDeps {
  readonly address: DaemonAddress;
  readonly apiKey: string;
  readonly history: HistoryEntry[];
}

/** A client that reads tasks, collects every second one, and makes and revokes keys: what was shown once stays so. */
class Observer {
  readonly #deps: ObserverDeps;
  readonly #ids: string[] = [];
  /** Finished tasks whose webhooks had not all arrived at the last look, the earliest look first. */
  readonly #undelivered: { readonly id: string; readonly lookedAt: number }[] = [];
  #looks = 0;

  constructor(deps: ObserverDeps) {
    this.#deps = deps;
  }

  /** Tasks to read. */
  note(ids: readonly string[]): void {
    this.#ids.push(...ids);
  }

  /** Reads one task after the other, from the running daemon, until the signal. */
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
      return this.#lookAtDeliveries(first.id);
    }
    // The newest, because there are more than can be looked at.
    const id = this.#ids.pop();
    if (id === undefined) return;
    const isCollected = this.#looks++ % 2 === 0;
    const query = isCollected ? "" : "?collect=false";
    const headers = { prefer: "wait=5" };
    const task = await this.#call(`/v1/tasks/task_get/${id}${query}`, { method: "GET", headers });
    if (task === null) return;
    const [{ state }] = finishedTask.parse(JSON.parse(task.text)).tasks;
    if (state !== "completed") return;
    this.#promise(task.requestId, ({ ledger }) => {
      ledger.finished.set(id, task.text);
      if (isCollected) ledger.collected.add(id);
    });
    this.#undelivered.push({ id, lookedAt: performance.now() });
  }

  async #lookAtDeliveries(id: string): Promise<void> {
    const list = await this.#call(`/v1/tasks/deliveries/${id}`, { method: "GET" });
    if (list === null) return;
    const { deliveries } = deliveryList.parse(JSON.parse(list.text));
    const delivered = deliveries.filter(({ state }) => state === "delivered");
    this.#promise(list.requestId, ({ ledger }) => {
      for (const { delivery_id: webhookId } of delivered) ledger.delivered.add(webhookId);
    });
    if (delivered.length < deliveries.length)
      this.#undelivered.push({ id, lookedAt: performance.now() });
  }

  async #changeKeys(): Promise<void> {
    const made = await this.#call(KEYS, { body: "{}" });
    if (made === null) return;
    const { key_id: keyId, key } = madeKey.parse(JSON.parse(made.text)).key;
    this.#promise(made.requestId, ({ validKeys }) => void validKeys.add(key));
    await sleep(KEY_PAUSE_MS);
    this.#promise(Date.now(), ({ validKeys }) => void validKeys.delete(key));
    const revoked = await this.#call(`${KEYS}/${keyId}`, { method: "DELETE" });
    if (revoked === null) return;
    this.#promise(revoked.requestId, ({ revokedKeys }) => void revokedKeys.add(key));
  }

  #promise(moment: HistoryEntry["moment"], note: HistoryEntry["note"]): void {
    this.#deps.history.push({ moment, note });
  }

  /** Null when the connection broke. */
  async #call(path: string, request: Omit<CarefulRequest, "secret">): Promise<Answer | null> {
    const { address, apiKey: secret } = this.#deps;
    const answer = await address.try(path, { ...request, secret });
    if (answer === null || answer.status === 200) return answer;
    throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
  }
}
