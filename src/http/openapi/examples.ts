import { DAY_MS, SECOND_MS } from "../../domain/clock/duration.ts";
import { type StatusCode, statusMessage } from "../../domain/status.ts";
import {
  type LeasedTaskShown,
  leasedTaskJson,
  taskEnvelope,
  taskJson,
  tasksEnvelope,
} from "../../domain/task/envelope.ts";
import type { Task } from "../../domain/task/task.ts";

/** Responses about tasks for the document, made by the functions of real responses. */

const CREATED_AT = Date.parse("2026-01-31T09:00:00.000Z");

const QUEUED: Task = {
  id: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
  state: "queued",
  statusCode: 40602,
  statusMessage: null,
  type: "echo",
  createdAt: CREATED_AT,
  startedAt: null,
  completedAt: null,
  expiresAt: null,
  runs: 0,
  dataText: '{"tag":"holiday"}',
  inputText: '{"file":"a.mp4"}',
  resultText: null,
  errorText: null,
};

const RUNNING: Task = {
  ...QUEUED,
  state: "running",
  statusCode: 40601,
  startedAt: CREATED_AT + SECOND_MS,
  runs: 1,
};

const COMPLETED: Task = {
  ...ended(RUNNING, 20000),
  state: "completed",
  resultText: '{"file":"a.mp4"}',
};

const FAILED: Task = {
  ...ended(RUNNING, 50010),
  errorText: JSON.stringify({
    message: "The command exited with code 1.",
    detail: { exit_code: 1, signal: null, stderr: "a.mp4: no such file\n" },
  }),
};

const TIMED_OUT: Task = {
  ...ended(RUNNING, 50401),
  errorText: JSON.stringify({
    message: "The command ran past its timeout of 60 s and was stopped.",
    detail: { exit_code: null, signal: "SIGTERM", stderr: "" },
  }),
};

const EXPIRED: Task = {
  ...ended(QUEUED, 50402),
  completedAt: CREATED_AT + 30 * DAY_MS,
  expiresAt: CREATED_AT + 60 * DAY_MS,
  errorText: JSON.stringify({
    message: "The task expired in the queue: it waited there for 30 days and was not started.",
    detail: { queue_days: 30 },
  }),
};

const CANCELLED: Task = { ...ended(QUEUED, 40901), state: "cancelled" };

const REFUSED_URL = refused(40501, {
  name: "postback_url",
  reason: "The URL must begin with http:// or https://.",
  dataText: '{"postback_url":"ftp://example.com/"}',
});

const REFUSED_FIELD = refused(40506, {
  name: "postback",
  reason: "",
  dataText: '{"postback":"https://example.com/done"}',
});

export const POST_EXAMPLES = {
  accepted: JSON.parse(tasksEnvelope([{ code: 20100, text: taskJson(QUEUED, { code: 20100 }) }])),
  refused: JSON.parse(tasksEnvelope([REFUSED_URL, REFUSED_FIELD].map(toItem))),
} satisfies Readonly<Record<string, unknown>>;

export const GET_EXAMPLES = {
  queued: envelope(QUEUED),
  running: JSON.parse(taskEnvelope(RUNNING, { progress: 0.25, note: "30 of 120 frames" })),
  completed: envelope(COMPLETED),
  failed: envelope(FAILED),
  timedOut: envelope(TIMED_OUT),
  expired: envelope(EXPIRED),
  cancelled: envelope(CANCELLED),
} satisfies Readonly<Record<string, unknown>>;

export const CANCEL_EXAMPLES = { cancelled: GET_EXAMPLES.cancelled };

function envelope(task: Task): unknown {
  return JSON.parse(taskEnvelope(task));
}

function toItem(task: Task) {
  return { code: task.statusCode, text: taskJson(task) };
}

function ended(task: Task, code: StatusCode): Task {
  const completedAt = CREATED_AT + 3 * SECOND_MS;
  return {
    ...task,
    state: "failed",
    statusCode: code,
    completedAt,
    expiresAt: completedAt + 30 * DAY_MS,
  };
}

function refused(
  code: 40501 | 40506,
  {
    dataText,
    ...field
  }: { readonly name: string; readonly reason: string; readonly dataText: string },
): Task {
  const message = statusMessage(code, field);
  return {
    ...ended(QUEUED, code),
    completedAt: CREATED_AT,
    expiresAt: CREATED_AT + 30 * DAY_MS,
    type: null,
    statusMessage: message,
    dataText,
    errorText: JSON.stringify({ message, detail: { field: field.name } }),
  };
}

/** A worker's requests and answers, as the document shows them. */

export const EXAMPLE_TYPE = "thumbnail";

const TASK: LeasedTaskShown = {
  id: "01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6",
  type: EXAMPLE_TYPE,
  tag: "holiday",
  marketplace: null,
  inputText: '{"file":"a.mp4","width":200}',
  leaseId: "k3Vq0sYw8mXo2bTtWc9sVd",
  leaseExpiresAt: Date.parse("2026-01-31T09:00:31.000Z"),
  runs: 1,
  traceText: null,
};

/** The names of its lease. */
export const EXAMPLE_LEASE = { id: TASK.id, lease_id: TASK.leaseId } as const;

export const CLAIM_EXAMPLES = {
  claimed: JSON.parse(tasksEnvelope([{ code: 20000, text: leasedTaskJson(TASK) }])),
  nothing: JSON.parse(tasksEnvelope([])),
} satisfies Readonly<Record<string, unknown>>;
