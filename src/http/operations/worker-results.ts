import { isNestedDeeper, JSON_DEPTH_MAX, toJsonText, type JsonObject } from "../../domain/json.ts";
import { LEASE_BATCH_MAX } from "../../domain/lease.ts";
import type { LeaseCompletion, LeaseFailure, LeaseOutcome } from "../../domain/lease.ts";
import { tasksEnvelopeSchema } from "../api-schema.ts";
import { schemaRef } from "../json-schema.ts";
import { answerItems, leaseList, type ItemReader } from "../lease-items.ts";
import { defineOperation, type BodyRule, type Operation } from "../operation.ts";
import { NO_QUERY } from "../query.ts";
import type { WorkerDesk } from "../worker-desk.ts";
import { EXAMPLE_LEASE } from "../worker-example.ts";
import { WORKER_MESSAGE_LENGTH_MAX } from "../worker-schema.ts";

export interface WorkerResultsDeps {
  readonly desk: Pick<WorkerDesk, "complete" | "fail">;
  readonly limits: { readonly resultBytes: number };
}

/** POST /v1/worker/complete: ends runs with their results, on disk before the answer. */
export function workerComplete({ desk, limits }: WorkerResultsDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/worker/complete",
    access: "worker",
    query: NO_QUERY,
    body: bodyOf("LeaseCompletion", "The runs that have come to their result."),
    doc: {
      id: "completeTasks",
      group: "Workers",
      summary: "Complete tasks",
      description:
        "Ends runs with their results, which are on disk when the answer comes. Again with the same lease answers " +
        `the same. A result over the limit of results, or deeper than ${JSON_DEPTH_MAX} levels, fails its run like ` +
        "a command's that wrote too much; `detail` says so. The body may have four times the limit of results.",
      answer: tasksEnvelopeSchema(schemaRef("LeaseOutcome")),
      codes: [50700],
      examples: { one: { tasks: [{ ...EXAMPLE_LEASE, result: { width: 200, height: 150 } }] } },
    },
    handle: ({ worker: { workerId }, body: { tasks } }) =>
      answerItems(tasks, {
        reader: completionReader(limits.resultBytes),
        ask: (endings) => endRuns(endings, { desk, workerId }),
      }),
  });
}

/** POST /v1/worker/fail: ends runs that came to nothing. */
export function workerFail({ desk, limits }: WorkerResultsDeps): Operation {
  return defineOperation({
    method: "POST",
    path: "/v1/worker/fail",
    access: "worker",
    query: NO_QUERY,
    body: bodyOf("LeaseFailure", "The runs that came to nothing."),
    doc: {
      id: "failTasks",
      group: "Workers",
      summary: "Fail tasks",
      description:
        "Ends runs that came to nothing. `retry` true queues the task again, false is final, and without it the " +
        "type's `retries` decide. A failure always counts: what of it cannot be kept is left out or cut, and " +
        "`detail` says so.",
      answer: tasksEnvelopeSchema(schemaRef("LeaseOutcome")),
      codes: [50700],
      examples: {
        one: { tasks: [{ ...EXAMPLE_LEASE, message: "a.mp4 is no video." }] },
        final: {
          tasks: [{ ...EXAMPLE_LEASE, message: "No.", detail: { exit_code: 1 }, retry: false }],
        },
      },
    },
    handle: ({ worker: { workerId }, body: { tasks } }) =>
      answerItems(tasks, {
        reader: failureReader(limits.resultBytes),
        ask: (failures) => desk.fail(workerId, failures),
      }),
  });
}

function bodyOf(item: string, description: string) {
  const tasks = leaseList({ lengthMin: 1, lengthMax: LEASE_BATCH_MAX }, { item, description });
  return {
    ...{ kind: "fields", fields: { tasks }, isOptional: false, holds: "results" },
  } as const satisfies BodyRule;
}

/** How a worker's completion is taken: a result that cannot be kept is a failure. */
type Ending =
  | { readonly kind: "completion"; readonly completion: LeaseCompletion }
  | { readonly kind: "failure"; readonly failure: LeaseFailure };

function completionReader(resultBytesMax: number): ItemReader<Ending> {
  return {
    members: ["result"],
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
    members: ["message", "detail", "retry"],
    read(item: JsonObject, { ref, note }) {
      const kept = toKeptJson(item["detail"], detailBytesMax);
      if (kept.kind === "fault") note(`The detail was left out: it ${kept.reason}.`);
      const retry = item["retry"] ?? null;
      const isFlag = retry === null || typeof retry === "boolean";
      if (!isFlag) note("The type decides on a retry: retry must be true or false.");
      return {
        ...{ ...ref, message: toMessage(item["message"], note) },
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
  if (isNestedDeeper(value, JSON_DEPTH_MAX)) {
    return { kind: "fault", reason: `is nested deeper than ${JSON_DEPTH_MAX} levels` };
  }
  const text = toJsonText(value ?? null);
  if (Buffer.byteLength(text) <= bytesMax) return { kind: "text", text };
  return { kind: "fault", reason: `is over ${bytesMax} bytes, the limit of a result` };
}

const NO_MESSAGE = "The worker gave no reason.";
// All control characters but tab and line feed, which messages of several lines have.
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

/** In the order asked, though completions and failures go to the desk apart: a task may stand here twice. */
async function endRuns(
  endings: readonly Ending[],
  { desk, workerId }: Pick<WorkerResultsDeps, "desk"> & { readonly workerId: number },
): Promise<readonly LeaseOutcome[]> {
  const outcomes: LeaseOutcome[] = [];
  for (let at = 0; at < endings.length; at = outcomes.length) {
    const rest = endings.slice(at);
    const completions = leading(rest, (each) => each.kind === "completion" && each.completion);
    const failures = leading(rest, (each) => each.kind === "failure" && each.failure);
    if (completions.length > 0) outcomes.push(...(await desk.complete(workerId, completions)));
    else outcomes.push(...(await desk.fail(workerId, failures)));
    if (outcomes.length === at) throw new Error("the desk gave no outcome");
  }
  return outcomes;
}

/** What is made of the first ones, up to the first of which nothing is made. */
function leading<From, To extends object>(
  all: readonly From[],
  make: (each: From) => To | false,
): readonly To[] {
  const made: To[] = [];
  for (const each of all) {
    const next = make(each);
    if (next === false) break;
    made.push(next);
  }
  return made;
}
