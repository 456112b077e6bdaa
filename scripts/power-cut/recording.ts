import { readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { createDaemonFile, startDaemon, type DaemonFile } from "../bench/bench-daemon.ts";
import { CarefulClient, type CarefulListener } from "../crash/careful-client.ts";
import { Ledger } from "../crash/ledger.ts";
import { judgeSettled, settle } from "../crash/settlement.ts";
import type { DaemonProcess } from "../daemon-process.ts";
import type { MessageServer } from "../kit/message-server.ts";
import { openReceiver, webhookUrls, type StatusRule } from "../kit/webhook-receiver.ts";
import type { Program } from "../program.ts";
import { historyText, parseHistory, type HistoryEntry } from "./client-history.ts";
import { LifeRecorder, type RecordedLife } from "./life-recorder.ts";
import { Observer } from "./observer.ts";

/** What to record. */
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
  /** Where the webhooks went. */
  readonly receiverPort: number;
  readonly lives: readonly RecordedLife[];
  readonly history: readonly HistoryEntry[];
}

const SETTINGS = { more: '\n[webhooks]\nretry_after = ["1s", "1s", "1s"]\n' };
const FAILING_TASK = /[01]$/;

/** An eighth of the tasks has receivers that fail at first. */
export const statusOf: StatusRule = ({ taskId, attempt }) =>
  FAILING_TASK.test(taskId) && attempt === 1 ? 500 : 200;

/**
 * Records a database from its first byte on, under load, through several kills, until everything is done; and keeps the
 * recording in the folder. Rejects when the daemon breaks a promise already here.
 */
export async function record(options: RecordingOptions): Promise<Recording> {
  const folder = realpathSync(options.folder);
  const lives = new LifeRecorder(options.program, folder);
  const traced = lives.program();
  const made = await createDaemonFile({ program: traced, folder }, SETTINGS);
  await lives.end(made.folder, null);
  const load = new Load(made);
  await using receiver = await load.openReceiver();
  const receiverPort = receiver.port;
  for (let count = 0; count <= options.kills; count++) {
    const isLast = count === options.kills;
    const file = { ...made, program: lives.program() };
    await using daemon = await startDaemon(file);
    if (isLast) await load.finish(daemon, options);
    else await load.runUntilKill(daemon, options.loadMs);
    await lives.end(made.folder, isLast ? null : Date.now());
  }
  const killedAt = lives.all.flatMap((life) => life.killedAt ?? []);
  const { faults } = judgeSettled(made.database, { ledger: load.ledger, killedAt });
  if (faults.length > 0)
    throw new Error(`the record has faults before any power is cut:\n${faults.join("\n")}`);
  const { program } = options;
  const recording = { file: { ...made, program }, receiverPort, lives: lives.all };
  save(folder, { ...recording, history: load.history });
  return { ...recording, history: load.history };
}

/** The clients and the receiver, which outlive every kill. */
class Load {
  readonly history: HistoryEntry[] = [];
  readonly ledger: Ledger;
  readonly #file: DaemonFile;
  readonly #observer: Observer;
  #client: CarefulClient | null = null;

  constructor(file: DaemonFile) {
    this.#file = file;
    this.ledger = new Ledger(file.account.webhookSecret);
    this.#observer = new Observer({ apiKey: file.account.key, history: this.history });
  }

  async openReceiver(): Promise<MessageServer> {
    const receiver = await openReceiver(
      (webhook, status) => {
        this.ledger.receive(webhook, status);
        this.history.push({ kind: "webhook", webhook, status });
      },
      { statusOf },
    );
    const { ledger } = this;
    const listener = listenerOf(this.history, this.#observer);
    const webhooks = webhookUrls(receiver);
    this.#client = new CarefulClient({
      apiKey: this.#file.account.key,
      webhooks,
      ledger,
      listener,
    });
    return receiver;
  }

  async runUntilKill(daemon: DaemonProcess, loadMs: number): Promise<void> {
    const load = this.#run(daemon, () => true);
    await sleep(loadMs);
    await daemon.kill();
    await load;
  }

  async finish(
    daemon: DaemonProcess,
    { loadMs, stallMsMax }: Pick<RecordingOptions, "loadMs" | "stallMsMax">,
  ): Promise<void> {
    const deadline = performance.now() + loadMs;
    await this.#run(daemon, () => performance.now() < deadline);
    const { ledger } = this;
    const { database } = this.#file;
    await settle(daemon, { database, ledger, client: this.#theClient, stallMsMax });
  }

  async #run(daemon: DaemonProcess, goesOn: () => boolean): Promise<void> {
    const observer = this.#observer.run(daemon.url, goesOn);
    await Promise.all([this.#theClient.run(daemon.url, goesOn), observer]);
  }

  get #theClient(): CarefulClient {
    if (this.#client === null) throw new Error("the receiver is not open yet");
    return this.#client;
  }
}

function listenerOf(history: HistoryEntry[], observer: Observer): CarefulListener {
  return {
    onPost: ({ key, body, isToCancel }) => {
      history.push({ kind: "post", key, body, isToCancel, sentAt: Date.now() });
    },
    onDone: (work, { requestId, status }) => {
      if (work.kind === "cancel") {
        history.push({ kind: "cancelled", id: work.id, hasRun: status === 409, requestId });
        return;
      }
      const ids = work.ids ?? "";
      history.push({ kind: "accepted", key: work.key, ids, requestId });
      if (!work.isToCancel) observer.note(ids.split(","));
    },
  };
}

const HISTORY_FILE = "history.jsonl";
const RECORDING_FILE = "recording.json";

const savedRecording = z.object({
  folder: z.string(),
  database: z.string(),
  allowed: z.string(),
  account: z.object({ login: z.string(), key: z.string(), webhookSecret: z.string() }),
  receiverPort: z.number(),
  lives: z.array(
    z.object({ traceFile: z.string(), snapshot: z.string(), killedAt: z.number().nullable() }),
  ),
});

function save(folder: string, { file, receiverPort, lives, history }: Recording): void {
  const { account, allowed, database, folder: daemonFolder } = file;
  const saved = { folder: daemonFolder, database, allowed, account, receiverPort, lives };
  writeFileSync(join(folder, HISTORY_FILE), historyText(history));
  writeFileSync(join(folder, RECORDING_FILE), `${JSON.stringify(saved, null, 2)}\n`);
}

/** Whether a folder has a recording. */
export function hasRecording(folder: string): boolean {
  return readdirSync(folder).some((name) => basename(name) === RECORDING_FILE);
}

/** Reads a recording that {@link record} left in a folder, which must not have been moved. */
export function loadRecording(folder: string, program: Program): Recording {
  const saved: unknown = JSON.parse(readFileSync(join(folder, RECORDING_FILE), "utf8"));
  const { receiverPort, lives, ...file } = savedRecording.parse(saved);
  const history = parseHistory(readFileSync(join(folder, HISTORY_FILE), "utf8"));
  return { file: { ...file, program }, receiverPort, lives, history };
}
