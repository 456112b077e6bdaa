import { randomUUID } from "node:crypto";
import { link, mkdir, open, unlink } from "node:fs/promises";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";

import { verifyPingback, verifyPostback } from "postbackd";

/**
 * Receives postbacks at `/postback` and pingbacks at `/pingback?id=$id`. A genuine, new webhook
 * becomes a file in the inbox before it is answered; the work is done later, from the inbox.
 */

// One secret, or several while one is being replaced.
const SECRETS = (process.env["WEBHOOK_SECRETS"] ?? "").split(/[\s,]+/).filter((s) => s !== "");
const PORT = Number(process.env["PORT"] ?? "8080");
const INBOX = process.env["INBOX"] ?? "inbox";
// More than a task's input and result can have together with the daemon's defaults.
const BODY_BYTES_MAX = 8 * 1024 * 1024;

if (SECRETS.length === 0) throw new Error("Set WEBHOOK_SECRETS to the webhook secret, whsec_…");
await mkdir(INBOX, { recursive: true });

const server = createServer((request, response) => void serve(request, response));
server.listen(PORT, "127.0.0.1", () => console.log(ownUrl()));

// The beginning of the task's webhook URLs, as the sender sees them. Never taken from Host or
// X-Forwarded-*: the sender of the request writes these.
function publicUrl(): string {
  return (process.env["PUBLIC_URL"] || ownUrl()).replace(/\/$/, "");
}

function ownUrl(): string {
  // A TCP server never has text here.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  let status = 500;
  try {
    status = await statusFor(request);
  } catch (error) {
    // It is not stored, so answer no 2xx: it will come again.
    console.error(error);
  }
  // The unread rest of a body must not be taken for the next request.
  if (!request.complete) response.setHeader("Connection", "close");
  response.statusCode = status;
  response.end();
}

function statusFor(request: IncomingMessage): Promise<number> {
  const target = request.url ?? "";
  const [path] = target.split("?");
  if (request.method === "POST" && path === "/postback") return receivePostback(request);
  if (request.method === "GET" && path === "/pingback") return receivePingback(request);
  return Promise.resolve(404);
}

async function receivePostback(request: IncomingMessage): Promise<number> {
  const body = await readBody(request);
  if (body === null) return 413;
  const { headers } = request;
  const isGenuine =
    (await verifyPostback(body, headers["x-signature"], SECRETS)) ||
    (await verifyPostback(body, headers["x-signature-next"], SECRETS));
  if (!isGenuine) return 401;
  return accept("postback", taskIdOf(body), body);
}

function taskIdOf(body: Buffer): unknown {
  // Parse it only now. Signed bytes that are not JSON are a pingback's URL, sent as a body.
  try {
    return JSON.parse(body.toString()).tasks[0].id;
  } catch {
    return null;
  }
}

async function receivePingback({ url: target = "", headers }: IncomingMessage): Promise<number> {
  const url = publicUrl() + target;
  const isGenuine =
    (await verifyPingback(url, headers["x-signature"], SECRETS)) ||
    (await verifyPingback(url, headers["x-signature-next"], SECRETS));
  if (!isGenuine) return 401;
  const id = new URLSearchParams(target.slice(target.indexOf("?"))).get("id");
  return accept("pingback", id, Buffer.from(url));
}

/** The raw bytes, or null as soon as there are too many. */
async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    length += chunk.length;
    if (length > BODY_BYTES_MAX) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function accept(kind: string, id: unknown, content: Buffer): Promise<number> {
  if (typeof id !== "string" || !/^[0-9a-f-]{36}$/.test(id)) return 400;
  const isNew = await store(`${id}.${kind}`, content);
  console.log(`${isNew ? "new" : "again"} ${kind} ${id}`);
  return 200;
}

/**
 * Puts a file on disk, whole or not at all. False when it is there already: the webhook came before.
 * Keep the names for as long as a webhook may come again, also when the work is done.
 */
async function store(name: string, content: Buffer): Promise<boolean> {
  const draft = join(INBOX, `.${randomUUID()}`);
  const file = await open(draft, "wx");
  try {
    await file.writeFile(content);
    await file.sync();
    // Of two at the same time one makes the name, and the other fails.
    await link(draft, join(INBOX, name));
    // The name must be on disk too.
    await file.sync();
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  } finally {
    await file.close();
    await unlink(draft);
  }
}
