import { EMPTY_ANSWERS, MessageServer } from "../kit/message-server.ts";

const SERVICE_ANSWER = `"${"x".repeat(4_000_000)}"`;
// The kept part of an answer ends far before its end.
const LONG_REFUSAL = "ä".repeat(32 * 1024);

type Path = "/service" | "/hook" | "/refusing";

const ANSWERS: Readonly<Record<Path, string>> = {
  "/service": answer("200 OK\r\nContent-Type: application/json", SERVICE_ANSWER),
  "/refusing": answer("500 Internal Server Error", LONG_REFUSAL),
  "/hook": EMPTY_ANSWERS[200],
};

/** The other side of the daemon's requests: a receiver of webhooks, one that refuses them all, and a service. */
export interface Peer extends AsyncDisposable {
  readonly url: (path: Path) => string;
  /** Settles when a whole webhook has come to `/hook`. */
  readonly nextWebhook: () => Promise<void>;
}

export async function openPeer(): Promise<Peer> {
  let next = Promise.withResolvers<void>();
  const server = await MessageServer.open(({ head }, { socket }) => {
    const asked = head.split(" ", 2)[1] ?? "";
    const path = asked === "/service" || asked === "/refusing" ? asked : "/hook";
    socket.write(ANSWERS[path]);
    if (path !== "/hook") return;
    next.resolve();
    next = Promise.withResolvers<void>();
  });
  return {
    url: (path) => `${server.url}${path}`,
    nextWebhook: () => next.promise,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function answer(head: string, body: string): string {
  return `HTTP/1.1 ${head}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}
