import { schemaRef, type JsonSchema } from "./json-schema.ts";

const SIGNATURE: JsonSchema = { type: "string", pattern: "^sha256=[0-9a-f]{64}$" };

const DELIVERY =
  "Delivered when a 2xx comes within the operator's timeout (10 seconds unless set), name resolution included. " +
  "Anything else, a redirect too, is a failure, retried after 1, 5 and 15 minutes unless set. " +
  "It may come more than once and in any order: `webhook-id` stays the same.";

/** The two webhooks of a finished task, as callbacks of the operation that posts it. */
export const WEBHOOK_CALLBACKS: JsonSchema = {
  postback: {
    "{$request.body#/postback_url}": {
      post: {
        operationId: "receivePostback",
        tags: ["Tasks"],
        summary: "Postback of a finished task",
        description: `Sent to each task's own \`postback_url\`, in an array of tasks too. The body is byte for byte that of task_get. ${DELIVERY}`,
        security: [],
        parameters: headers("postback", "the raw body"),
        requestBody: {
          required: true,
          content: { "application/json": { schema: schemaRef("TaskEnvelope") } },
        },
        responses: responses(),
      },
    },
  },
  pingback: {
    "{$request.body#/pingback_url}": {
      get: {
        operationId: "receivePingback",
        tags: ["Tasks"],
        summary: "Pingback of a finished task",
        description: `Sent to each task's own \`pingback_url\`, its \`$id\` and \`$tag\` filled in; without a body. ${DELIVERY}`,
        security: [],
        parameters: headers("pingback", "the whole URL as requested"),
        responses: responses(),
      },
    },
  },
};

function headers(kind: "postback" | "pingback", message: string): readonly JsonSchema[] {
  const signed = `\`sha256=\` and the hex HMAC-SHA256 of ${message}`;
  const content = kind === "postback" ? "the body" : "an empty body";
  return [
    header("User-Agent", "The sender.", { const: "postbackd-webhooks/1" }),
    header("X-Signature", `${signed}, with the account's webhook secret.`, SIGNATURE),
    {
      ...header(
        "X-Signature-Next",
        `${signed}, with the next secret during a rotation.`,
        SIGNATURE,
      ),
      required: false,
    },
    header("X-Attempt", "Counts the attempts of a series, from 1.", {
      type: "integer",
      minimum: 1,
    }),
    header("webhook-id", "The same for every attempt of one webhook (Standard Webhooks).", {
      type: "string",
      pattern: `^[0-9a-f-]{36}-${kind}$`,
    }),
    header("webhook-timestamp", "When the attempt was signed, in seconds since 1970.", {
      type: "integer",
      minimum: 0,
    }),
    header(
      "webhook-signature",
      `Of id, timestamp and ${content} (Standard Webhooks), with each secret; separated by spaces.`,
      { type: "string", pattern: "^v1,[0-9A-Za-z+/]{43}=( v1,[0-9A-Za-z+/]{43}=)?$" },
    ),
  ];
}

function header(name: string, description: string, schema: JsonSchema): JsonSchema {
  return { name, in: "header", required: true, description, schema };
}

function responses(): JsonSchema {
  return {
    "2XX": { description: "Delivered. At most 4 KiB of the answer are read, for the log." },
    "3XX": {
      description: "Failed: redirects are not followed. Tried again while there are retries.",
    },
    "4XX": { description: "Failed; tried again while there are retries." },
    "5XX": { description: "Failed; tried again while there are retries." },
  };
}
