import { isId } from "../domain/id.ts";
import { parseJsonBytes } from "../domain/json/json.ts";
import {
  checkSignature,
  explainVerdict,
  type ReceivedMessage,
} from "../domain/webhook/signature.ts";
import { parseWebhookId } from "../domain/webhook/webhook-request.ts";
import type { InboxRequest } from "../http/inbox.ts";
import type { Store, WebhookSecrets } from "../store/store.ts";
import { verifyPingback, verifyPostback } from "../verify.ts";
import type { InboxMessage } from "./inbox-boxes.ts";
import type { SampleSender } from "./sample-sender.ts";

export interface JudgeParts {
  readonly store: Pick<Store, "findTaskDeliveries" | "findSecrets">;
  readonly samples: Pick<SampleSender, "loginOf">;
}

export type Judgement = Pick<InboxMessage, "taskId" | "kind" | "attempt" | "signature">;

/** Judges by the present secrets of the task's account, or else of the account that the box is named after. */
export async function judge(request: InboxRequest, parts: JudgeParts): Promise<Judgement> {
  const subject = subjectOf(request);
  return {
    ...subject,
    attempt: attemptOf(request),
    signature: await verdictOf(request, { ...parts, subject }),
  };
}

export function valuesOf(
  { headers }: Pick<InboxRequest, "headers">,
  name: string,
): readonly string[] {
  return headers.flatMap(([each, value]) => (each.toLowerCase() === name ? value : []));
}

type Subject = Pick<InboxMessage, "taskId" | "kind">;

const NO_SUBJECT: Subject = { taskId: null, kind: null };

function subjectOf(request: InboxRequest): Subject {
  const [webhookId = ""] = valuesOf(request, "webhook-id");
  return parseWebhookId(webhookId) ?? subjectOfBody(request.body);
}

// A client sends a stored body again without its headers.
function subjectOfBody(body: Uint8Array): Subject {
  const isLikely = body[0] === "{".charCodeAt(0) && body.length <= EXPLAINED_BYTES_MAX;
  const parsed = isLikely ? parseJsonBytes(body, { depthMax: BODY_DEPTH_MAX }) : null;
  if (parsed?.kind !== "json") return NO_SUBJECT;
  const { tasks }: { readonly tasks?: unknown } = Object(parsed.value);
  const { id }: { readonly id?: unknown } = Object(Array.isArray(tasks) ? tasks[0] : null);
  return typeof id === "string" && isId(id) ? { taskId: id, kind: "postback" } : NO_SUBJECT;
}

const BODY_DEPTH_MAX = 100;

function attemptOf(request: InboxRequest): number | null {
  const [text = ""] = valuesOf(request, "x-attempt");
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
}

type Signature = InboxMessage["signature"];

async function verdictOf(
  request: InboxRequest,
  parts: JudgeParts & { readonly subject: Subject },
): Promise<Signature> {
  const { subject } = parts;
  const signed = valuesOf(request, "x-signature");
  const signedNext = valuesOf(request, "x-signature-next");
  if (signed.length + signedNext.length === 0) {
    return { verdict: "missing", detail: "The message has no X-Signature." };
  }
  const secrets = await findSecrets(request, parts);
  if (secrets === null) return { verdict: "invalid", detail: unknownTask(subject) };
  const { webhookSecret, webhookSecretNext: next } = secrets;
  const message = messageOf(request, subject);
  if (await isGenuine(message, signed, webhookSecret)) {
    return { verdict: "valid", detail: explainVerdict({ kind: "valid" }).join(" ") };
  }
  const isNext =
    (next !== null && (await isGenuine(message, signed, next))) ||
    (await isGenuine(message, signedNext, next ?? webhookSecret));
  if (isNext) return { verdict: "next", detail: SIGNED_WITH_NEXT };
  return { verdict: "invalid", detail: faultOf(message, { signed, secret: webhookSecret }) };
}

const SIGNED_WITH_NEXT =
  "The signature is valid with the next secret of the rotation, but not with the current secret.";

async function findSecrets(
  { box }: InboxRequest,
  { subject: { taskId }, store, samples }: JudgeParts & { readonly subject: Subject },
): Promise<WebhookSecrets | null> {
  if (taskId === null) return store.findSecrets(box);
  return (
    (await store.findTaskDeliveries(taskId)) ?? store.findSecrets(samples.loginOf(taskId) ?? box)
  );
}

function unknownTask({ taskId }: Subject): string {
  return taskId === null
    ? "The message has no task id, so its account is unknown: webhook-id is missing or changed."
    : `The signature cannot be checked: task ${taskId} does not exist on this daemon, or was erased.`;
}

function messageOf({ method, url, body }: InboxRequest, { kind }: Subject): ReceivedMessage {
  const isUrl = kind === null ? method === "GET" : kind === "pingback";
  return isUrl ? { kind: "url", url } : { kind: "body", bytes: body };
}

function isGenuine(
  message: ReceivedMessage,
  values: readonly string[],
  secret: string,
): Promise<boolean> {
  const [value, ...others] = values;
  const header = others.length === 0 ? value : values;
  return message.kind === "url"
    ? verifyPingback(message.url, header, secret)
    : verifyPostback(message.bytes, header, secret);
}

// To find out why takes a digest for each mistake that there is.
const EXPLAINED_BYTES_MAX = 256 * 1024;

function faultOf(
  message: ReceivedMessage,
  { signed, secret }: { readonly signed: readonly string[]; readonly secret: string },
): string {
  const [signature, ...others] = signed;
  if (signature === undefined) {
    return "The signature is not valid. X-Signature is missing, and X-Signature-Next is not signed with a secret of the account.";
  }
  if (others.length > 0) return "The signature is not valid. X-Signature occurs more than once.";
  if (message.kind === "body" && message.bytes.length > EXPLAINED_BYTES_MAX) {
    return "The signature is not valid. The body is too long to find the reason here: use `postbackd verify`.";
  }
  return explainVerdict(checkSignature({ signature, secret, message })).join(" ");
}
