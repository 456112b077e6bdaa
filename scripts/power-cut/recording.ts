import { readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { createDaemonFile, startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import type { Program } from "../kit/program.ts";
import {
  failingAtFirst,
  openReceiver,
  webhookUrls,
  type ReceivedWebhook,
} from "../kit/webhook-receiver.ts";
import { CarefulClient, type CarefulListener } from "../soak/careful-client.ts";
import { Ledger } from "../soak/ledger.ts";
import { judgeSettled, settle } from "../soak/settlement.ts";
import { historyText, parseHistory, type HistoryEntry } from "./client-history.ts";
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

/** An eighth of the tasks has receivers that fail at first. */
export const statusOf = failingAtFirst(/[01]$/, 1);

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
  // The clients and the receiver outlive every kill.
  const { key: apiKey, webhookSecret } = made.account;
  const [ledger, history] = [new Ledger(webhookSecret), new Array<HistoryEntry>()];
  const onWebhook = (webhook: ReceivedWebhook, status: 200 | 500): void => {
    ledger.receive(webhook, status);
    history.push({ kind: "webhook", webhook, status });
  };
  await using receiver = await openReceiver(onWebhook, { statusOf });
  const observer = new Observer({ apiKey, history });
  const [webhooks, listener] = [webhookUrls(receiver), listenerOf(history, observer)];
  const client = new CarefulClient({ apiKey, webhooks, ledger, listener });
  const { kills, loadMs, stallMsMax, program } = options;
  for (let count = 0; count <= kills; count++) {
    const isLast = count === kills;
    await using daemon = await startDaemon({ ...made, program: lives.program() });
    const until = isLast ? performance.now() + loadMs : Infinity;
    const goesOn = (): boolean => performance.now() < until;
    const load = [client.run(daemon.url, goesOn), observer.run(daemon.url, goesOn)];
    if (!isLast) load.push(killAfter(loadMs, daemon));
    await Promise.all(load);
    if (isLast) await settle(daemon, { database: made.database, ledger, client, stallMsMax });
    await lives.end(made.folder, isLast ? null : Date.now());
  }
  const killedAt = lives.all.flatMap((life) => life.killedAt ?? []);
  const { faults } = judgeSettled(made.database, { ledger, killedAt });
  if (faults.length > 0)
    throw new Error(`the record has faults before any power is cut:\n${faults.join("\n")}`);
  const recording = {
    file: { ...made, program },
    receiverPort: receiver.port,
    lives: lives.all,
    history,
  };
  save(folder, recording);
  return recording;
}

async function killAfter(ms: number, daemon: DaemonProcess): Promise<void> {
  await sleep(ms);
  await daemon.kill();
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
