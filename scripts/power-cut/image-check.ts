import { z } from "zod";

import { DaemonAddress, carefulCall } from "../kit/client.ts";
import { reasonOf } from "../kit/command.ts";
import { type DaemonFile, type DaemonProcess, startDaemon } from "../kit/daemon.ts";
import { Random } from "../kit/random.ts";
import { type MessageServer, webhookUrls } from "../kit/receiver.ts";
import { type Cancel, Client, type Post } from "../soak/client.ts";
import { faultOf, inspectAnytime } from "../soak/inspection.ts";
import { finish, judgeFinished } from "../soak/verdict.ts";
import { type Book, HABIT } from "./recording.ts";

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

/** The promises of a daemon at the moment of the power cut. */
export interface PromisesAt {
  readonly book: Book;
  /** Whether there was an account. Without one nothing was promised. */
  readonly hasAccount: boolean;
  /** The requests that its clients have to repeat, and some that were answered already. */
  readonly works: readonly (Post | Cancel)[];
  /** When daemons had ended without being asked to, the power cut included; in epoch milliseconds. */
  readonly killedAt: readonly number[];
}

export interface ImageCheck {
  /** The daemon's files, in the folder that holds the image. */
  readonly file: DaemonFile;
  readonly promises: PromisesAt;
  /** Passes all events on to the promises' ledger. */
  readonly receiver: MessageServer;
  /** Nothing may stand still for longer. */
  readonly stallMsMax: number;
}

/** Starts the daemon on an image, asks for everything that was promised, lets it finish, and looks at the file. */
export async function checkImage(check: ImageCheck): Promise<ImageVerdict> {
  const verdict = { readyMs: null, duplicates: 0, repeated: 0, replayed: 0, faults: [], log: "" };
  let daemon: DaemonProcess | null = null;
  try {
    daemon = await startDaemon(check.file);
    const { readyMs } = daemon;
    return { ...verdict, readyMs, ...(await checkRunning(daemon, check)), log: daemon.log };
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
): Promise<Partial<ImageVerdict>> {
  const { database, account } = file;
  const { works, killedAt, hasAccount } = promises;
  const { ledger } = promises.book;
  const found = inspectAnytime(database, ledger);
  if (!hasAccount) {
    await daemon.stop();
    return { faults: found };
  }
  const known = ledger.arrivals.length;
  const broken = [
    ...found,
    ...(await brokenInAnswers(daemon.url, { book: promises.book, apiKey: account.key })),
  ];
  // It cannot finish lost tasks.
  if (broken.length > 0) return { faults: broken };
  const [address, webhooks] = [new DaemonAddress(), webhookUrls(receiver)];
  address.moveTo(daemon);
  const deps = { account, address, webhooks, ledger, random: new Random(0), habit: HABIT };
  const client = new Client(deps, works);
  await address.within(stallMsMax, client.run(AbortSignal.abort()));
  await finish(daemon, { database, ledger, stallMsMax });
  await daemon.stop();
  const { duplicates, faults } = judgeFinished(database, { ledger, killedAt });
  const again = ledger.arrivals
    .slice(known)
    .map(({ taskId, kind }) => `${taskId}-${kind}`)
    .filter((webhookId) => ledger.delivered.has(webhookId));
  const { repeated, replayed } = client;
  const sentAgain = faultOf(again, "webhooks that were shown as delivered came again");
  return { duplicates, repeated, replayed, faults: [...faults, ...sentAgain] };
}

const refusal = z.object({ status_code: z.number() });
const LANES = 8;

async function brokenInAnswers(
  url: string,
  { book, apiKey }: { readonly book: Book; readonly apiKey: string },
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
  const { ledger, revokedKeys, validKeys } = book;
  const { finished } = ledger;
  const changed = await eachOf(finished.keys(), async (id) => {
    return (await get(`/v1/tasks/task_get/${id}?collect=false`, apiKey)) !== finished.get(id);
  });
  const revived = await eachOf(revokedKeys, async (key) => (await statusOf(key)) !== 40101);
  const refused = await eachOf(validKeys, async (key) => (await statusOf(key)) !== 20000);
  return [
    ...faultOf(changed, "finished tasks are shown otherwise than before"),
    ...faultOf(revived, "revoked keys are not refused as revoked"),
    ...faultOf(refused, "keys that nobody revoked are refused"),
  ];
}

/** Those of which `isWanted` says yes, a few asked at a time. */
async function eachOf(
  all: Iterable<string>,
  isWanted: (each: string) => Promise<boolean>,
): Promise<readonly string[]> {
  const left = [...all];
  const found: string[] = [];
  const lane = async (): Promise<void> => {
    for (let each = left.pop(); each !== undefined; each = left.pop())
      if (await isWanted(each)) found.push(each);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return found;
}
