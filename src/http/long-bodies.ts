import {
  LEASE_INPUTS,
  LeaseBeatItem,
  LeaseCompletionItem,
  LeaseFailureItem,
  LeaseRefItem,
  WORKER_MESSAGE_LENGTH_MAX,
} from "../api/lease.ts";
import { type JsonSchema, memberNames } from "../api/schema.ts";
import { isId } from "../domain/id.ts";
import {
  JSON_DEPTH_MAX,
  type JsonObject,
  type Offload,
  isDeeperThan,
  isJsonObject,
  toJsonText,
} from "../domain/json/json.ts";
import type { LeaseBeat, LeaseCompletion, LeaseFailure, LeaseRef } from "../domain/lease/lease.ts";
import type { StatusDetail } from "../domain/status.ts";
import { PROGRESS, parseProgress } from "../domain/task/run.ts";
import { type ParsedTask, type TaskRules, parseTask } from "../domain/task/task-post.ts";
import { SHORT_BODY_BYTES } from "./admission/limits.ts";
import { PLAIN_READING, RESULTS_READING, TASKS_READING, parseBody } from "./body.ts";
import { parseFields } from "./inputs.ts";

/** Bodies that may take long to parse, by their content: bytes in, plain data out. */
export const BODY_PARSES = {
  postedTasks({ ids, ...body }: PostedBody & { readonly ids: readonly string[] }) {
    const left = ids.values();
    return parsePostedTasks(body, () => {
      const { value } = left.next();
      if (value === undefined) throw new Error("there are more tasks than ids");
      return value;
    });
  },
  completions: parseCompletions,
  failures: parseFailures,
  beats: parseBeats,
  releases: parseReleases,
};

type BodyParses = typeof BODY_PARSES;

/** Parses bodies that may take long, elsewhere. */
export type BodyParser = Offload<BodyParses>;

/** True for a body that would hold up the event loop. */
export function isLong(bytes: Uint8Array): boolean {
  return bytes.length > SHORT_BODY_BYTES;
}

/** Parses a short body here, and a long one in another thread, where it delays nothing. */
export async function parseLong<Name extends keyof BodyParses>(
  name: Name,
  args: Parameters<BodyParses[Name]>[0],
  { parser, owner }: { readonly parser: BodyParser; readonly owner: string },
): Promise<ReturnType<BodyParses[Name]>> {
  const { bytes } = args;
  if (isLong(bytes)) return parser.run(name, args, { owner, bytes: bytes.length });
  // The compiler sees only that some parse takes some arguments and returns something.
  const parse = BODY_PARSES[name] as (given: unknown) => unknown;
  return parse(args) as ReturnType<BodyParses[Name]>;
}

/** A body of tasks as it came, with everything that is needed to judge them. */
export interface PostedBody {
  readonly bytes: Uint8Array;
  readonly rules: TaskRules;
  readonly now: number;
  readonly tasksMax: number;
}

/** The content of a body of tasks; `refused` is reported only after any other fault of the request. */
export type PostedTasks =
  | { readonly kind: "tasks"; readonly tasks: readonly ParsedTask[] }
  | {
      readonly kind: "refused";
      readonly code: 40006 | 40502 | 40503;
      readonly more: { readonly detail?: string; readonly details?: readonly StatusDetail[] };
    };

/** Parses all tasks of a body, each with its own id. Throws 40503 for bytes that are not JSON. */
export function parsePostedTasks(
  { bytes, rules, now, tasksMax }: PostedBody,
  nextId: () => string,
): PostedTasks {
  const body = parseBody(bytes, TASKS_READING);
  const elements: readonly unknown[] = Array.isArray(body) ? body : [body];
  if (elements.length === 0) return { kind: "refused", code: 40502, more: {} };
  if (elements.length > tasksMax) {
    const detail = `A post has at most ${tasksMax} tasks; this one has ${elements.length}.`;
    return { kind: "refused", code: 40006, more: { detail } };
  }
  const objects = elements.filter(isJsonObject);
  if (objects.length < elements.length) {
    const detail = "A task must be a JSON object.";
    const details = elements.flatMap((element, i) =>
      isJsonObject(element) ? [] : [{ pointer: Array.isArray(body) ? `/${i}` : "", detail }],
    );
    return { kind: "refused", code: 40503, more: { details } };
  }
  const tasks = objects.map((task) => parseTask(task, { id: nextId(), now, rules }));
  return { kind: "tasks", tasks };
}

/**
 * Reads what workers report about the leases that they hold: bodies in, plain data out, in any thread. One bad item
 * never spoils the others (worker-protocol.md); a body of which nothing can be used is 40501 or 40503.
 */

interface LeasesBody {
  readonly bytes: Uint8Array;
}

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
    note("Without a message, the error is sent as text.");
    return NO_MESSAGE;
  }
  // A code point has at most two units, so the rest need not be looked at.
  const points = [...clean.slice(0, 2 * WORKER_MESSAGE_LENGTH_MAX + 2)];
  if (points.length <= WORKER_MESSAGE_LENGTH_MAX) return clean;
  note(`The message was cut to ${WORKER_MESSAGE_LENGTH_MAX} characters: send the rest as detail.`);
  return points.slice(0, WORKER_MESSAGE_LENGTH_MAX).join("");
}

type KeptJson =
  | { readonly kind: "text"; readonly text: string }
  /** `reason` completes "it …". */
  | { readonly kind: "fault"; readonly reason: string };

/** A value of a body as the text of a result, if it may be one; what is missing is null. */
export function toKeptJson(value: unknown, bytesMax: number): KeptJson {
  const text = toJsonText(value ?? null);
  if (isDeeperThan(text, JSON_DEPTH_MAX)) {
    return { kind: "fault", reason: `is nested deeper than ${JSON_DEPTH_MAX} levels` };
  }
  if (Buffer.byteLength(text) <= bytesMax) return { kind: "text", text };
  return { kind: "fault", reason: `is over ${bytesMax} bytes, the limit of a result` };
}
