import {
  LEASE_INPUTS,
  LeaseBeatItem,
  LeaseCompletionItem,
  LeaseFailureItem,
  LeaseRefItem,
  WORKER_MESSAGE_LENGTH_MAX,
} from "../api/lease.ts";
import { isDeeperThan } from "../domain/json/json-build.ts";
import { JSON_DEPTH_MAX, toJsonText, type JsonObject } from "../domain/json/json.ts";
import type { LeaseBeat, LeaseCompletion, LeaseFailure, LeaseRef } from "../domain/lease/lease.ts";
import { parseProgress, PROGRESS, type TaskProgress } from "../domain/task/progress.ts";
import { parseBody, PLAIN_READING, RESULTS_READING } from "./body.ts";
import { parseFields } from "./fields.ts";
import { readItems, type ItemReader, type ReadItem } from "./lease-items.ts";

/** Reads what workers report about the leases that they hold: bodies in, plain data out, in any thread. */

/** Reads completed runs. Throws 40501 or 40503 for a body of which nothing can be used. */
export function parseCompletions({
  bytes,
  resultBytesMax,
}: ResultsBody): readonly ReadItem<Ending>[] {
  const { tasks } = parseFields(
    parseBody(bytes, RESULTS_READING),
    LEASE_INPUTS["POST /v1/worker/complete"].body,
  );
  return readItems(tasks, completionReader(resultBytesMax));
}

/** Reads failed runs, as {@link parseCompletions}. */
export function parseFailures({
  bytes,
  resultBytesMax,
}: ResultsBody): readonly ReadItem<LeaseFailure>[] {
  const { tasks } = parseFields(
    parseBody(bytes, RESULTS_READING),
    LEASE_INPUTS["POST /v1/worker/fail"].body,
  );
  return readItems(tasks, failureReader(resultBytesMax));
}

/** Reads a heartbeat, as {@link parseCompletions}. */
export function parseBeats({ bytes }: LeasesBody): readonly ReadItem<LeaseBeat>[] {
  const { leases, progress } = parseFields(
    parseBody(bytes, PLAIN_READING),
    LEASE_INPUTS["POST /v1/worker/heartbeat"].body,
  );
  return readItems(leases, beatReader(progress));
}

/** Reads released leases, as {@link parseCompletions}. */
export function parseReleases({ bytes }: LeasesBody): readonly ReadItem<LeaseRef>[] {
  const { tasks } = parseFields(
    parseBody(bytes, PLAIN_READING),
    LEASE_INPUTS["POST /v1/worker/release"].body,
  );
  return readItems(tasks, REF_READER);
}

/** A body as it came. */
export interface LeasesBody {
  readonly bytes: Uint8Array;
}

/** A body as it came, and the limit of each result in it. */
export interface ResultsBody extends LeasesBody {
  readonly resultBytesMax: number;
}

/** How a worker's completion is taken: a result that cannot be kept is a failure. */
export type Ending =
  | { readonly kind: "completion"; readonly completion: LeaseCompletion }
  | { readonly kind: "failure"; readonly failure: LeaseFailure };

function completionReader(resultBytesMax: number): ItemReader<Ending> {
  return {
    item: LeaseCompletionItem,
    read(item: JsonObject, { ref, note }) {
      const kept = toKeptJson(item["result"], resultBytesMax);
      if (kept.kind === "text") {
        return { kind: "completion", completion: { ...ref, resultText: kept.text } };
      }
      const message = `The worker's result ${kept.reason}.`;
      note(`${message} So the run has failed.`);
      return { kind: "failure", failure: { ...ref, message, detailText: "null", retry: null } };
    },
  };
}

function failureReader(detailBytesMax: number): ItemReader<LeaseFailure> {
  return {
    item: LeaseFailureItem,
    read(item: JsonObject, { ref, note }) {
      const kept = toKeptJson(item["detail"], detailBytesMax);
      if (kept.kind === "fault") note(`The detail was left out: it ${kept.reason}.`);
      const retry = item["retry"] ?? null;
      const isFlag = retry === null || typeof retry === "boolean";
      if (!isFlag) note("The type decides on a retry: retry must be true or false.");
      return {
        ...ref,
        message: toMessage(item["message"], note),
        detailText: kept.kind === "text" ? kept.text : "null",
        retry: isFlag ? retry : null,
      };
    },
  };
}

type KeptJson =
  | { readonly kind: "text"; readonly text: string }
  /** `reason` completes "it …". */
  | { readonly kind: "fault"; readonly reason: string };

function toKeptJson(value: unknown, bytesMax: number): KeptJson {
  const text = toJsonText(value ?? null);
  if (isDeeperThan(text, JSON_DEPTH_MAX)) {
    return { kind: "fault", reason: `is nested deeper than ${JSON_DEPTH_MAX} levels` };
  }
  if (Buffer.byteLength(text) <= bytesMax) return { kind: "text", text };
  return { kind: "fault", reason: `is over ${bytesMax} bytes, the limit of a result` };
}

const NO_MESSAGE = "The worker gave no reason.";
// All control characters except tab and line feed, which occur in messages of several lines.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]+/g;

function toMessage(value: unknown, note: (sentence: string) => void): string {
  const given = typeof value === "string" ? value : "";
  const clean = given.toWellFormed().replaceAll(/\r\n?/g, "\n").replaceAll(CONTROL, " ").trim();
  if (clean === "") {
    note("There was no message: send what went wrong, as text.");
    return NO_MESSAGE;
  }
  // A code point has at most two units, so the rest need not be looked at.
  const points = [...clean.slice(0, 2 * WORKER_MESSAGE_LENGTH_MAX + 2)];
  if (points.length <= WORKER_MESSAGE_LENGTH_MAX) return clean;
  note(`The message was cut to ${WORKER_MESSAGE_LENGTH_MAX} characters: send the rest as detail.`);
  return points.slice(0, WORKER_MESSAGE_LENGTH_MAX).join("");
}

function beatReader(common: TaskProgress | null): ItemReader<LeaseBeat> {
  return {
    item: LeaseBeatItem,
    read(item: JsonObject, { ref, note }) {
      const given = item["progress"] ?? null;
      const progress = given === null ? common : parseProgress(given);
      if (given !== null && progress === null) {
        note(`The progress was passed over: it must be ${PROGRESS.takes}.`);
      }
      return { ...ref, progress };
    },
  };
}

const REF_READER: ItemReader<LeaseRef> = { item: LeaseRefItem, read: (_item, { ref }) => ref };
