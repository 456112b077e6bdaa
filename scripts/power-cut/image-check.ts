import { join } from "node:path";

import { z } from "zod";

import { carefulCall } from "../kit/careful-call.ts";
import { startDaemon, type DaemonFile } from "../kit/daemon-file.ts";
import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import type { MessageServer } from "../kit/message-server.ts";
import { webhookUrls } from "../kit/webhook-receiver.ts";
import { CarefulClient } from "../soak/careful-client.ts";
import { inspectAnytime } from "../soak/inspection.ts";
import { judgeSettled, settle } from "../soak/settlement.ts";
import type { PromisesAt } from "./promises-at.ts";

/** How a daemon got on with what a power cut had left. */
export interface ImageVerdict {
  /** Promises that are broken, in words. */
  readonly faults: readonly string[];
  /** Null when it did not get ready. */
  readonly readyMs: number | null;
  /** Webhooks that the receiver had accepted before, sent again. */
  readonly duplicates: number;
  /** Posts that the power cut had left without an answer, sent again. */
  readonly repeated: number;
  /** Of these, those whose tasks were on disk before. */
  readonly replayed: number;
  /** The end of the daemon's log. */
  readonly log: string;
}

/** The facts needed to judge an image. */
export interface ImageCheck {
  /** The daemon's files, in the folder that holds the image. */
  readonly file: DaemonFile;
  readonly promises: PromisesAt;
  /** Passes on to the promises' ledger whatever comes. */
  readonly receiver: MessageServer;
  readonly stallMsMax: number;
}

/** Starts the daemon on an image, asks for everything that was promised, lets it finish, and looks at the file. */
export async function checkImage(check: ImageCheck): Promise<ImageVerdict> {
  const verdict = { readyMs: null, duplicates: 0, repeated: 0, replayed: 0 };
  let daemon: DaemonProcess | null = null;
  try {
    daemon = await startDaemon(check.file);
    return { ...verdict, ...(await checkRunning(daemon, check)), log: daemon.log };
  } catch (error) {
    const readyMs = daemon?.readyMs ?? null;
    return { ...verdict, readyMs, faults: [reasonOf(error)], log: daemon?.log ?? "" };
  } finally {
    await daemon?.[Symbol.asyncDispose]();
  }
}

async function checkRunning(
  daemon: DaemonProcess,
  { file, promises, receiver, stallMsMax }: ImageCheck,
): Promise<Omit<ImageVerdict, "log">> {
  const { readyMs } = daemon;
  const { ledger, works, killedAt, delivered, hasAccount } = promises;
  const start = { readyMs, duplicates: 0, repeated: 0, replayed: 0 };
  if (!hasAccount) {
    await daemon.stop();
    return { ...start, faults: inspectAnytime(file.database, ledger) };
  }
  const known = ledger.arrivals.length;
  const found = [
    ...inspectAnytime(file.database, ledger),
    ...brokenOnDisk(file.database, promises),
    ...(await brokenInAnswers(daemon.url, { promises, apiKey: file.account.key })),
  ];
  // It cannot finish lost tasks.
  if (found.length > 0) return { ...start, faults: found };
  const webhooks = webhookUrls(receiver);
  const client = new CarefulClient({ apiKey: file.account.key, webhooks, ledger });
  client.resume(works);
  await settle(daemon, { database: file.database, ledger, client, stallMsMax });
  const { explanation, faults } = judgeSettled(file.database, { ledger, killedAt });
  const again = ledger.arrivals
    .slice(known)
    .map(({ taskId, kind }) => `${taskId}-${kind}`)
    .filter((webhookId) => delivered.has(webhookId));
  return {
    readyMs,
    duplicates: explanation.duplicates,
    repeated: client.count.repeated,
    replayed: client.count.replayed,
    faults: [...faults, ...faultOf(again, "webhooks that were shown as delivered came again")],
  };
}

const taskRow = z.tuple([z.string(), z.string(), z.number()]);

function brokenOnDisk(database: string, promises: PromisesAt): readonly string[] {
  using view = new DatabaseView(database);
  const states = new Map<string, string>();
  const ready = new Set<string>();
  for (const row of view.rows("SELECT id, state, ready FROM tasks")) {
    const [id, state, isReady] = taskRow.parse(row);
    states.set(id, state);
    if (isReady === 1) ready.add(id);
  }
  const delivered = view.column(`
    SELECT t.id || '-' || d.kind FROM deliveries AS d JOIN tasks AS t ON t.seq = d.task_seq
    WHERE d.state = 'delivered'`);
  const isDelivered = new Set(delivered);
  const { tasks, finished, collected } = promises;
  return [
    ...faultOf(
      [...tasks].filter((id) => !states.has(id)),
      "accepted tasks are lost",
    ),
    ...faultOf(
      [...finished.keys()].filter((id) => states.get(id) !== "completed"),
      "tasks that were shown as completed are not",
    ),
    ...faultOf(
      [...collected].filter((id) => ready.has(id)),
      "tasks that were collected are ready",
    ),
    ...faultOf(
      [...promises.delivered].filter((webhookId) => !isDelivered.has(webhookId)),
      "deliveries that were shown as delivered are not",
    ),
  ];
}

const refusal = z.object({ status_code: z.number() });
const LANES = 8;

async function brokenInAnswers(
  url: string,
  { promises, apiKey }: { readonly promises: PromisesAt; readonly apiKey: string },
): Promise<readonly string[]> {
  const get = async (path: string, secret: string): Promise<string> => {
    const answer = await carefulCall(`${url}${path}`, { secret, method: "GET" });
    if (answer === null) throw new Error("the daemon does not answer");
    return answer.text;
  };
  const statusOf = async (key: string): Promise<number> => {
    const text = await get("/v1/appendix/user_data", key);
    return refusal.parse(JSON.parse(text)).status_code;
  };
  const { finished, revokedKeys, validKeys } = promises;
  const changed = await eachOf([...finished], async ([id, text]) => {
    return (await get(`/v1/tasks/task_get/${id}?collect=false`, apiKey)) !== text;
  });
  const revived = await eachOf([...revokedKeys], async (key) => (await statusOf(key)) !== 40101);
  const refused = await eachOf([...validKeys], async (key) => (await statusOf(key)) !== 20000);
  return [
    ...faultOf(
      changed.map(([id]) => id),
      "finished tasks are shown otherwise than before",
    ),
    ...faultOf(revived, "revoked keys are not refused as revoked"),
    ...faultOf(refused, "keys that nobody revoked are refused"),
  ];
}

/** Those of which `isWanted` says yes, a few asked at a time. */
async function eachOf<Each>(
  all: readonly Each[],
  isWanted: (each: Each) => Promise<boolean>,
): Promise<readonly Each[]> {
  const left = [...all];
  const found: Each[] = [];
  const lane = async (): Promise<void> => {
    for (let each = left.pop(); each !== undefined; each = left.pop())
      if (await isWanted(each)) found.push(each);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return found;
}

function faultOf(found: readonly string[], text: string): readonly string[] {
  return found.length === 0 ? [] : [`${found.length} ${text}, ${found[0]} for one`];
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} (${reasonOf(error.cause)})`;
}

/** The daemon's files as they are when an image lies in that folder. */
export function fileIn(folder: string, file: DaemonFile): DaemonFile {
  return { ...file, folder, database: join(folder, "postbackd.db") };
}
