import { timeText } from "../clock/time.ts";
import { isTaskError, statusMessage, type StatusCode } from "../status.ts";
import type { TaskProgress } from "./run.ts";
import type { Task, TaskSummary } from "./task.ts";
import { readTrace } from "./trace.ts";

/**
 * The bytes that clients see. They are made here and not in the HTTP ring, because a postback's body is byte for byte
 * the body of task_get (http-api.md), so one function makes both. It reads no clock and knows no request. JSON is put
 * together from stored JSON text, so that nothing is parsed again on the way out.
 */

function timeJson(timeMs: number | null): string {
  return timeMs === null ? "null" : `"${timeText(timeMs)}"`;
}

function stringJson(text: string | null): string {
  return text === null ? "null" : JSON.stringify(text);
}

/** The response of task_get and the body of a postback. It shows progress only while the task runs. */
export function taskEnvelope(task: Task, progress: TaskProgress | null = null): string {
  return taskEnvelopePieces(task, progress).join("");
}

/** A task whose long texts are JSON text, or the bytes of it. */
export type TaskWith<Text> = TaskSummary &
  Readonly<Record<"inputText" | "resultText" | "errorText", Text | null>>;

/** In pieces, with the long texts as they were given: bytes need not become text and bytes again. */
export function taskEnvelopePieces<Text>(
  task: TaskWith<Text>,
  progress: TaskProgress | null = null,
): readonly (Text | string)[] {
  const head = envelopeHead([task.statusCode]);
  return [head, ...taskPieces(task, { progress }), ENVELOPE_END];
}

/** A task's JSON, beside the code that decides whether it counts as an error. */
export interface TaskItem {
  readonly code: StatusCode;
  readonly text: string;
}

/** An envelope around tasks; `fieldsText` is what the operation adds, as `"name":value` JSON text. */
export function tasksEnvelope(items: readonly TaskItem[], fieldsText = ""): string {
  const tasks = items.map((item) => item.text).join(",");
  const codes = items.map((item) => item.code);
  return `${envelopeHead(codes, fieldsText)}${tasks}${ENVELOPE_END}`;
}

function envelopeHead(codes: readonly StatusCode[], fieldsText = ""): string {
  const errors = codes.reduce((count, code) => count + (isTaskError(code) ? 1 : 0), 0);
  const fields = fieldsText === "" ? "" : `,${fieldsText}`;
  return `{"status_code":20000,"status_message":"Ok.","tasks_count":${codes.length},"tasks_error":${errors}${fields},"tasks":[`;
}

const ENVELOPE_END = "]}";

export interface TaskShown {
  /** Overrides the stored code in the answer to task_post. */
  readonly code?: StatusCode;
  readonly progress?: TaskProgress | null;
}

export function taskJson(task: Task, shown: TaskShown = {}): string {
  return taskPieces(task, shown).join("");
}

function taskPieces<Text>(task: TaskWith<Text>, shown: TaskShown): readonly (Text | string)[] {
  const { dataText, inputText, resultText, errorText } = task;
  const [dataStart, dataEnd] = inputText === null ? [dataText, ""] : aroundInput(dataText);
  return [
    `{${headText(task, shown)},"data":${dataStart}`,
    inputText ?? "",
    `${dataEnd},"result":`,
    resultText ?? "null",
    `,"error":`,
    errorText ?? "null",
    "}",
  ];
}

/** A task as lists show it: without `input`, `result` and `error`. */
export function summaryJson(task: TaskSummary, shown: TaskShown = {}): string {
  return `{${headText(task, shown)},"data":${task.dataText}}`;
}

/** A task as a worker gets it, with the lease that the worker now holds (worker-protocol.md). */
export interface LeasedTaskShown {
  readonly id: string;
  readonly type: string;
  readonly tag: string | null;
  readonly marketplace: string | null;
  /** JSON text; null where the client posted none. */
  readonly inputText: string | null;
  readonly leaseId: string;
  readonly leaseExpiresAt: number;
  /** How often the task was started, including this time. */
  readonly runs: number;
  /** The trace it was posted in, as it is stored; null for none. */
  readonly traceText: string | null;
}

export function leasedTaskJson(task: LeasedTaskShown): string {
  const trace = readTrace(task.traceText);
  return (
    `{"id":"${task.id}","type":${stringJson(task.type)},"tag":${stringJson(task.tag)}` +
    `,"marketplace":${stringJson(task.marketplace)},"input":${task.inputText ?? "null"}` +
    `,"lease_id":${stringJson(task.leaseId)},"lease_expires_at":${timeJson(task.leaseExpiresAt)}` +
    `,"run":${task.runs},"traceparent":${stringJson(trace?.traceparent ?? null)}` +
    `,"tracestate":${stringJson(trace?.tracestate ?? null)}}`
  );
}

function headText(task: TaskSummary, { code = task.statusCode, progress }: TaskShown): string {
  const message = task.statusMessage ?? statusMessage(code);
  return (
    `"id":"${task.id}","status_code":${code},"status_message":${JSON.stringify(message)}` +
    `,"state":"${task.state}","type":${stringJson(task.type)}` +
    `,"created_at":${timeJson(task.createdAt)},"started_at":${timeJson(task.startedAt)}` +
    `,"completed_at":${timeJson(task.completedAt)},"expires_at":${timeJson(task.expiresAt)}` +
    `,"runs":${task.runs},"progress":${progressJson(task, progress)}`
  );
}

// Only while it runs, because the shown form of a finished task never changes.
function progressJson({ state }: TaskSummary, progress: TaskProgress | null = null): string {
  if (progress === null || state !== "running") return "null";
  return `{"progress":${progress.progress},"note":${stringJson(progress.note)}}`;
}

// `dataText` is an object's JSON text without `input`; the input is added as its last member.
function aroundInput(dataText: string): readonly [start: string, end: string] {
  const comma = dataText === "{}" ? "" : ",";
  return [`${dataText.slice(0, -1)}${comma}"input":`, "}"];
}
