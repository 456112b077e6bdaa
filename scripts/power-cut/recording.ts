import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { deserialize, serialize } from "node:v8";

import { DaemonAddress } from "../kit/client.ts";
import { type DaemonFile, type Program, createDaemonFile, startDaemon } from "../kit/daemon.ts";
import { Random } from "../kit/random.ts";
import { failingAtFirst, openReceiver, webhookUrls, type WebhookUrls } from "../kit/receiver.ts";
import { Client, EAGER, lightTasks } from "../soak/client.ts";
import { Ledger } from "../soak/ledger.ts";
import { finish, judgeFinished } from "../soak/verdict.ts";
import type { HistoryEntry } from "./history.ts";
import { LifeRecorder, type RecordedLife } from "./life-recorder.ts";
import { Observer } from "./observer.ts";

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
