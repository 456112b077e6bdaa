import { hash } from "node:crypto";

import { IDEMPOTENCY_MS, retentionEnd, type Moment } from "../../domain/clock/service-clock.ts";
import { StatusError } from "../../domain/status.ts";
import { taskJson, tasksEnvelope, type TaskItem } from "../../domain/task/envelope.ts";
import { IDEMPOTENCY_KEY, type ParsedTask } from "../../domain/task/task-post.ts";
import type { NewTask, RefusedTask, Task } from "../../domain/task/task.ts";
import { parseTrace, traceText } from "../../domain/task/trace.ts";
import type { Idempotency, KeptAnswer } from "../../store/store.ts";
import { countPosted, overQuota, quotaOf } from "../admission/quota.ts";
import { type PostedTasks, isLong, parsePostedTasks } from "../long-bodies.ts";
import { POST_EXAMPLES } from "../openapi/examples.ts";
import { webhookCallbacks } from "../openapi/webhooks.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Call, type Operation, type WholeAnswer } from "../operation.ts";

export function taskPost(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/tasks/task_post", {
    access: "account",
    tasksMax: deps.limits.tasksPerPost,
    ...DOC,
    callbacks: webhookCallbacks(deps.webhooks),
    async handle(call) {
      const { holder, bodyBytes, now } = call;
      const { accountId } = holder;
      const steadyAt = deps.clock.steady();
      const posted = await readPosted(deps, { accountId, bytes: bodyBytes, now });
      const idempotency = idempotencyOf(idempotencyKey(call), { bodyBytes, steadyAt });
      const kept =
        idempotency === null
          ? null
          : await deps.store.findKeptAnswer({ accountId, ...idempotency });
      if (idempotency !== null && kept !== null) return repeat(kept, idempotency.bodyHash);
      if (posted.kind === "refused") throw new StatusError(posted.code, posted.more);
      const { post, answerText } = take(posted.tasks, { deps, moment: { at: now, steadyAt } });
      await refuseWhileUnable(deps);
      const { accepted, refused } = post;
      const headers = countPosted(holder, accepted.length + refused.length, deps);
      const outcome = await deps.store.insertTasks({
        ...post,
        accountId,
        idempotency: idempotency && { ...idempotency, answerText },
        quota: quotaOf(holder, deps),
        traceText: traceText(parseTrace(call.headers("traceparent"), call.headers("tracestate"))),
      });
      if (outcome.kind === "kept") return repeat(outcome, idempotency?.bodyHash ?? "");
      if (outcome.kind === "over quota") throw overQuota(outcome, holder, deps);
      for (const { id, type } of accepted)
        deps.log.debug({ task: id, type }, "a task was accepted");
      deps.posted?.({ accepted: countTypes(accepted), refused: refused.length });
      // A wake for tasks that have started would cost a claim that finds nothing.
      if (accepted.length > (outcome.started?.length ?? 0))
        deps.wake(new Set(accepted.map(({ type }) => type)));
      return { status: 200, text: answerText, headers };
    },
  });
}

function countTypes(accepted: readonly NewTask[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { type } of accepted) counts.set(type, (counts.get(type) ?? 0) + 1);
  return counts;
}

const DOC: Operation["doc"] = {
  id: "postTasks",
  group: "Tasks",
  summary: "Post tasks",
  description:
    "Takes in tasks and answers once all accepted ones are on disk. A task with a bad field is refused alone: " +
    "it comes back as failed with 40501 or 40506, and the others are accepted.",
  headers: {
    "Idempotency-Key": {
      description:
        "The same key and body within 24 hours get the first answer again and make no task; another body is 42200.",
      schema: IDEMPOTENCY_KEY.schema,
    },
    Traceparent: {
      description:
        "The trace that the tasks belong to (W3C Trace Context), sent on their webhooks and handed to their runners. One " +
        "that is not valid is ignored.",
      schema: {
        type: "string",
        examples: ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
      },
    },
    Tracestate: {
      description: "Goes with it, up to 512 characters.",
      schema: { type: "string", examples: ["rojo=00f067aa0ba902b7"] },
    },
  },
  answerHeaders: {
    "Idempotent-Replayed": {
      description: "On the answer to an earlier request with the same key and body.",
      schema: { const: "true" },
    },
  },
  answerExamples: POST_EXAMPLES,
  codes: [40006, 42200, 50700],
  examples: {
    one: { input: { file: "a.mp4" }, tag: "holiday" },
    several: [
      { type: "echo", input: [1, 2.5], priority: 9 },
      {
        input: "later",
        tag: "order-17",
        start_at: "2027-01-31T09:00:00.000Z",
        postback_url: "https://example.com/done",
        pingback_url: "https://example.com/done?id=$id&tag=$tag",
      },
    ],
  },
};

function idempotencyKey({ headers }: Pick<Call, "headers">): string | null {
  const [key, ...others] = headers("idempotency-key");
  if (key === undefined) return null;
  const parsed = IDEMPOTENCY_KEY.parse(key);
  if (parsed.kind === "value" && others.length === 0) return parsed.value;
  throw new StatusError(40000, { detail: `Send one Idempotency-Key of ${IDEMPOTENCY_KEY.takes}.` });
}

/** The idempotency key of a request with the hash of its body; null without a key. */
type Promised = Omit<Idempotency, "answerText">;

function idempotencyOf(
  key: string | null,
  { bodyBytes, steadyAt }: { readonly bodyBytes: Uint8Array; readonly steadyAt: number },
): Promised | null {
  if (key === null) return null;
  const bodyHash = hash("sha256", bodyBytes, "hex");
  return { key, bodyHash, steadyAt, eraseAt: steadyAt + IDEMPOTENCY_MS };
}

function repeat({ bodyHash, answerText }: KeptAnswer, bodyHashNow: string): WholeAnswer {
  const headers = { "idempotent-replayed": "true" };
  if (bodyHash === bodyHashNow) return { status: 200, text: answerText, headers };
  const detail = "This Idempotency-Key was used for another body; take a new key.";
  throw new StatusError(42200, { detail });
}

async function refuseWhileUnable({ isAccepting, shortage }: OperationDeps): Promise<void> {
  if (!isAccepting()) throw new StatusError(50300, { headers: { "retry-after": "5" } });
  if ((await shortage()) !== null) throw new StatusError(50700);
}

function readPosted(
  { parser, rules, ids, limits: { tasksPerPost: tasksMax } }: OperationDeps,
  { accountId, bytes, now }: { accountId: number; bytes: Uint8Array; now: number },
): PostedTasks | Promise<PostedTasks> {
  const body = { bytes, rules: rules(), now, tasksMax };
  const nextId = (): string => ids.next(now);
  if (!isLong(bytes)) return parsePostedTasks(body, nextId);
  const owner = `account ${accountId}`;
  // As many as there may be tasks: another thread cannot ask for the next one.
  const taskIds = Array.from({ length: tasksMax }, nextId);
  return parser.run("postedTasks", { ...body, ids: taskIds }, { owner, bytes: bytes.length });
}

function take(
  parsed: readonly ParsedTask[],
  { deps, moment }: { readonly deps: OperationDeps; readonly moment: Moment },
) {
  const refusedUntil = retentionEnd(moment, deps.retentionMs);
  const times = { createdAt: moment.at, refusedExpireAt: refusedUntil.expiresAt };
  const accepted: NewTask[] = [];
  const refused: RefusedTask[] = [];
  const items: TaskItem[] = [];
  for (const each of parsed) {
    if (each.kind === "accepted") accepted.push(each.task);
    else refused.push(each.task);
    items.push(toItem(each, times));
  }
  const post = { createdAt: moment.at, accepted, refused, refusedUntil };
  return { post, answerText: tasksEnvelope(items) };
}

// The tasks as the store will have them: shown without being read back.
function toItem(
  parsed: ParsedTask,
  times: { readonly createdAt: number; readonly refusedExpireAt: number },
): TaskItem {
  const { id, type, dataText, inputText } = parsed.task;
  const fresh = { id, type, dataText, inputText, createdAt: times.createdAt };
  if (parsed.kind === "accepted") {
    return { code: 20100, text: taskJson({ ...QUEUED, ...fresh }, { code: 20100 }) };
  }
  const { code, message, errorText } = parsed.task;
  const refused: Task = {
    ...QUEUED,
    ...fresh,
    errorText,
    state: "failed",
    statusCode: code,
    statusMessage: message,
    completedAt: times.createdAt,
    expiresAt: times.refusedExpireAt,
  };
  return { code, text: taskJson(refused) };
}

const QUEUED = {
  state: "queued",
  statusCode: 40602,
  statusMessage: null,
  startedAt: null,
  completedAt: null,
  expiresAt: null,
  runs: 0,
  resultText: null,
  errorText: null,
} as const;
