import {
  LEASE_INPUTS,
  LeaseBeatItem,
  LeaseCompletionItem,
  LeaseFailureItem,
  LeaseRefItem,
  WORKER_MESSAGE_LENGTH_MAX,
} from "../api/lease.ts";
import { memberNames, type JsonSchema } from "../api/schema.ts";
import { isId } from "../domain/id.ts";
import { isJsonObject, type JsonObject } from "../domain/json/json.ts";
import type { LeaseBeat, LeaseCompletion, LeaseFailure, LeaseRef } from "../domain/lease/lease.ts";
import { PROGRESS, parseProgress } from "../domain/task/run.ts";
import { parseBody, PLAIN_READING, RESULTS_READING } from "./body.ts";
import { parseFields } from "./fields.ts";
import { toKeptJson } from "./kept-json.ts";

/**
 * Reads what workers report about the leases that they hold: bodies in, plain data out, in any thread. One bad item
 * never spoils the others (contract §7); a body of which nothing can be used is 40501 or 40503.
 */

interface LeasesBody {
  readonly bytes: Uint8Array;
}

/** A body as it came, and the limit of each result in it. */
interface ResultsBody extends LeasesBody {
  readonly resultBytesMax: number;
}

/** How a worker's completion is taken: a result that cannot be kept is a failure. */
export type Ending = LeaseCompletion | LeaseFailure;

const { "POST /v1/worker/complete": COMPLETE, "POST /v1/worker/fail": FAIL } = LEASE_INPUTS;
const { "POST /v1/worker/heartbeat": BEAT, "POST /v1/worker/release": RELEASE } = LEASE_INPUTS;

export function parseCompletions(body: ResultsBody): readonly ReadItem<Ending>[] {
  const { tasks } = parseFields(parseBody(body.bytes, RESULTS_READING), COMPLETE.body);
  return readItems<Ending>(tasks, LeaseCompletionItem, (item, { ref, note }) => {
    const kept = toKeptJson(item["result"], body.resultBytesMax);
    if (kept.kind === "text") return { ...ref, resultText: kept.text };
    const message = `The worker's result ${kept.reason}.`;
    note(`${message} So the run has failed.`);
    return { ...ref, message, detailText: "null", retry: null };
  });
}

export function parseFailures(body: ResultsBody): readonly ReadItem<LeaseFailure>[] {
  const { tasks } = parseFields(parseBody(body.bytes, RESULTS_READING), FAIL.body);
  return readItems(tasks, LeaseFailureItem, (item, { ref, note }) => {
    const kept = toKeptJson(item["detail"], body.resultBytesMax);
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
  });
}

export function parseBeats({ bytes }: LeasesBody): readonly ReadItem<LeaseBeat>[] {
  const { leases, progress: common } = parseFields(parseBody(bytes, PLAIN_READING), BEAT.body);
  return readItems(leases, LeaseBeatItem, (item, { ref, note }) => {
    const given = item["progress"] ?? null;
    const progress = given === null ? common : parseProgress(given);
    if (given !== null && progress === null) {
      note(`The progress was passed over: it must be ${PROGRESS.takes}.`);
    }
    return { ...ref, progress };
  });
}

export function parseReleases({ bytes }: LeasesBody): readonly ReadItem<LeaseRef>[] {
  const { tasks } = parseFields(parseBody(bytes, PLAIN_READING), RELEASE.body);
  return readItems(tasks, LeaseRefItem, (_item, { ref }) => ref);
}

export type ReadItem<Asked> = {
  /** As it was given, if it was text. */
  readonly id: string | null;
  /** Anything to add to the outcome. */
  readonly detail?: string;
} & ({ readonly kind: "lease"; readonly asked: Asked } | { readonly kind: "none" });

const NOT_AN_OBJECT = "It must be an object with id and lease_id.";
const NOT_A_LEASE = "It must have the id and the lease_id of a claimed task, each as it came.";
const LEASE_ID_LENGTH_MAX = 64;

/** Takes a sentence about an item of which not everything can be used. */
type Note = (sentence: string) => void;

/** Reads items one by one. `read` never refuses: it leaves out the parts that cannot be used. */
function readItems<Asked>(
  items: readonly unknown[],
  schema: JsonSchema,
  read: (item: JsonObject, to: { readonly ref: LeaseRef; readonly note: Note }) => Asked,
): readonly ReadItem<Asked>[] {
  const known = memberNames(schema);
  return items.map((item) => {
    if (!isJsonObject(item)) return { kind: "none", id: null, detail: NOT_AN_OBJECT };
    const { id, lease_id: leaseId } = item;
    const shownId = typeof id === "string" ? id : null;
    const isRef = shownId !== null && isId(shownId) && isLeaseId(leaseId);
    if (!isRef) return { kind: "none", id: shownId, detail: NOT_A_LEASE };
    const notes: string[] = [];
    // A misspelt `result` would be lost without a word.
    if (!Object.keys(item).every((name) => known.includes(name))) {
      notes.push(`Only these members are known here: ${known.join(", ")}.`);
    }
    const ref = { id: shownId, leaseId };
    const asked = read(item, { ref, note: (sentence) => void notes.push(sentence) });
    return { kind: "lease", id: shownId, asked, ...(notes[0] && { detail: notes.join(" ") }) };
  });
}

function isLeaseId(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= LEASE_ID_LENGTH_MAX;
}

const NO_MESSAGE = "The worker gave no reason.";
// All control characters except tab and line feed, which occur in messages of several lines.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]+/g;

function toMessage(value: unknown, note: Note): string {
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
