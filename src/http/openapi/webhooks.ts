import type { JsonSchema } from "../../api/schema.ts";
import { TaskEnvelope } from "../../api/task.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../domain/clock/duration.ts";

/** When a webhook counts as delivered, and when it is tried again, as the operator has set it. */
export interface WebhookSchedule {
  readonly timeoutMs: number;
  /** One wait per retry, counted from the failure. */
  readonly retryAfterMs: readonly number[];
}

/** The two webhooks of a finished task, as callbacks of the operation that posts it. */
export function webhookCallbacks(schedule: WebhookSchedule): JsonSchema {
  const delivery = deliveryText(schedule);
  const responses = callbackResponses(schedule);
  return {
    postback: {
      "{$request.body#/postback_url}": {
        post: {
          operationId: "receivePostback",
          tags: ["Tasks"],
          summary: "Postback of a finished task",
          description: `Sent to each task's own \`postback_url\`, also if it was posted in an array. The body equals the body of task_get, byte for byte. ${delivery}`,
          security: [],
          parameters: headers("postback", "the raw body"),
          requestBody: {
            required: true,
            content: { "application/json": { schema: TaskEnvelope } },
          },
          responses,
        },
      },
    },
    pingback: {
      "{$request.body#/pingback_url}": {
        get: {
          operationId: "receivePingback",
          tags: ["Tasks"],
          summary: "Pingback of a finished task",
          description: `Sent to each task's own \`pingback_url\`, with its \`$id\` and \`$tag\` replaced; without a body. ${delivery}`,
          security: [],
          parameters: headers("pingback", "the whole URL as requested"),
          responses,
        },
      },
    },
  };
}

function deliveryText({ timeoutMs, retryAfterMs }: WebhookSchedule): string {
  return (
    `Delivered when a 2xx comes within ${lengthText(timeoutMs)}, name resolution included. ` +
    `Any other response, also a redirect, is a failure. ${retryText(retryAfterMs)} ` +
    "A webhook can arrive more than once and in any order; its `webhook-id` stays the same."
  );
}

function retryText(retryAfterMs: readonly number[]): string {
  const waits = retryAfterMs.map(lengthText);
  const last = waits.pop();
  if (last === undefined) return "It is not retried.";
  if (waits.length === 0) return `It is retried ${last} after the failure; then it is given up.`;
  const all = `${waits.join(", ")} and ${last}`;
  return `It is retried ${all} after the previous failure; then it is given up.`;
}

const UNITS = [
  ["day", DAY_MS],
  ["hour", HOUR_MS],
  ["minute", MINUTE_MS],
  ["second", 1000],
] as const;

/** In the largest unit that gives a whole number, because a reader may set a clock by it. */
function lengthText(ms: number): string {
  const [name, unitMs] = UNITS.find((unit) => ms % unit[1] === 0) ?? ["millisecond", 1];
  const count = ms / unitMs;
  return `${count} ${name}${count === 1 ? "" : "s"}`;
}

function headers(kind: "postback" | "pingback", message: string): readonly JsonSchema[] {
  const signed = `\`sha256=\` and the hex HMAC-SHA256 of ${message}`;
  const ofId = `Of id, timestamp and ${kind === "postback" ? "the body" : "an empty body"}`;
  const signature = { type: "string", pattern: "^sha256=[0-9a-f]{64}$" };
  const table: readonly (readonly [name: string, description: string, schema: JsonSchema])[] = [
    ["User-Agent", "The sender.", { const: "postbackd-webhooks/1" }],
    ["X-Signature", `${signed}, with the account's webhook secret.`, signature],
    ["X-Signature-Next", `${signed}, with the next secret during a rotation.`, signature],
    ["X-Attempt", "Number of the attempt, from 1.", { type: "integer", minimum: 1 }],
    [
      "webhook-id",
      "The same for every attempt of one webhook (Standard Webhooks).",
      { type: "string", pattern: `^[0-9a-f-]{36}-${kind}$` },
    ],
    [
      "webhook-timestamp",
      "When the attempt was signed, in seconds since 1970.",
      { type: "integer", minimum: 0 },
    ],
    [
      "webhook-signature",
      `${ofId} (Standard Webhooks), with each secret; separated by spaces.`,
      { type: "string", pattern: "^v1,[0-9A-Za-z+/]{43}=( v1,[0-9A-Za-z+/]{43}=)?$" },
    ],
  ];
  return table.map(([name, description, schema]) => {
    return { name, in: "header", required: name !== "X-Signature-Next", description, schema };
  });
}

function callbackResponses({ retryAfterMs }: WebhookSchedule): JsonSchema {
  const next =
    retryAfterMs.length === 0 ? "it is not retried." : "it is retried until no retry is left.";
  return {
    "2XX": {
      description: "Delivered. The daemon reads at most 4 KiB of the response, for the log.",
    },
    "3XX": { description: `Failed, because redirects are not followed; ${next}` },
    "4XX": { description: `Failed; ${next}` },
    "5XX": { description: `Failed; ${next}` },
  };
}
