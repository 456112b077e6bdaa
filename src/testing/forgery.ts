import type { Message } from "./inbox.ts";

/** A request to a receiver that the daemon has not sent. */
export interface Forgery {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

type Genuine = Pick<Message, "headers" | "body">;

/** Requests that a receiver must not take: the first is no JSON either. */
export async function forgeries(genuine: Genuine): Promise<readonly Forgery[]> {
  const unsigned = { headers: withoutSignatures(genuine), body: genuine.body };
  const altered = genuine.body.replace(/"status_message":"/, "$&No ");
  return [
    { ...unsigned, body: '{"tasks":' },
    unsigned,
    await resigned(genuine, { body: genuine.body, secret: `whsec_${btoa("another secret")}` }),
    { headers: keptOf(genuine), body: altered },
  ];
}

/** Another body with the headers of a webhook, signed as the daemon does. */
export async function resigned(
  genuine: Genuine,
  { body, secret }: { readonly body: string; readonly secret: string },
): Promise<Forgery> {
  const { "webhook-id": id = "", "webhook-timestamp": timestamp = "" } = genuine.headers;
  const standardKey = Uint8Array.from(atob(secret.replace("whsec_", "")), (each) =>
    each.charCodeAt(0),
  );
  const [mac, standard] = await Promise.all([
    hmac(new TextEncoder().encode(secret), body),
    hmac(standardKey, `${id}.${timestamp}.${body}`),
  ]);
  const hex = [...mac].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const signatures = {
    "x-signature": `sha256=${hex}`,
    "webhook-signature": `v1,${btoa(String.fromCharCode(...standard))}`,
  };
  return { headers: { ...withoutSignatures(genuine), ...signatures }, body };
}

/** Sends it on a connection of its own, and answers the HTTP status. */
export async function send(url: string, { headers, body }: Forgery): Promise<number> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, connection: "close" },
    body,
    redirect: "manual",
  });
  await response.arrayBuffer();
  return response.status;
}

/** The headers of a webhook, without those that belong to its own body and connection. */
function keptOf({ headers }: Genuine): Readonly<Record<string, string>> {
  const kept = /^(content-type|user-agent|x-attempt|x-signature.*|webhook-.*)$/;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => kept.test(name)));
}

function withoutSignatures(genuine: Genuine): Readonly<Record<string, string>> {
  const all = Object.entries(keptOf(genuine));
  return Object.fromEntries(all.filter(([name]) => !name.includes("signature")));
}

async function hmac(key: Uint8Array<ArrayBuffer>, message: string): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const imported = await crypto.subtle.importKey("raw", key, algorithm, false, ["sign"]);
  const bytes = new TextEncoder().encode(message);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, bytes));
}
