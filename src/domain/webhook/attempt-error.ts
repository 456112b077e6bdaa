/** The meaning of an attempt's error for the person who waits for the callback. */
export interface ErrorExplanation {
  readonly clause: string;
  /** The remedy, as a clause; null without a remedy. */
  readonly hint: string | null;
}

export interface Peer {
  readonly host: string;
  /** The address and port that were dialled; the host's where none were. */
  readonly dialled: string;
}

/** Explains an attempt's error; null for a phrase of another version of the program. */
export function explainError(
  error: string,
  { peer, role }: { readonly peer: Peer; readonly role: ReaderRole },
): ErrorExplanation | null {
  const known = EXPLANATIONS.get(error);
  if (known === undefined) return null;
  const [clause, advice] = known;
  const hint = advice === null || typeof advice === "string" ? advice : adviceText(advice, role);
  return { clause: filled(clause, peer), hint: hint === null ? null : filled(hint, peer) };
}

function filled(text: string, { host, dialled }: Peer): string {
  return text.replace(/HOST|PEER/g, (word) => (word === "HOST" ? host : dialled));
}

const SERVERS: Advice = {
  operator: "check the name servers of the daemon's machine, or webhooks.dns_servers",
};
const RECORD = "correct the name in the URL or its record in DNS";
const CERTIFICATE = "install a certificate for HOST at the receiver";
const RECEIVER = "the receiver's log has the reason";
const REACH: Advice = {
  anybody: "check the receiver's network and its firewall",
  operator: "check the route from the daemon's machine to the receiver",
};
const REPORT: Advice = { operator: "report this fault of postbackd" };
const LISTEN = "start the receiver, or correct the port in the URL";
const SPEAKS_TLS = "check that the receiver supports HTTPS with TLS 1.2 or later";
const RESEND = "the webhook is sent again immediately and uses up no retry";

type Explained = readonly [clause: string, hint: string | Advice | null];

const EXPLANATIONS: ReadonlyMap<string, Explained> = new Map(
  Object.entries<Explained>({
    "name not found": ["the name HOST does not exist", RECORD],
    "no addresses": ["the name HOST exists, but has no address", "add an A or AAAA record for it"],
    "too many addresses": ["the name HOST has too many addresses", RECORD],
    "name is not valid": ["HOST is not a valid DNS name", "correct the URL"],
    "name server did not respond": ["no name server responded in time for HOST", SERVERS],
    "name server failed": [
      "the name server failed to resolve HOST (SERVFAIL)",
      { ...SERVERS, anybody: "check the name servers of the name's domain" },
    ],
    "name server refused the query": ["the name server refused to resolve HOST", SERVERS],
    "name server cannot be reached": ["no name server could be reached to resolve HOST", SERVERS],
    "name server sent an invalid response": [
      "the name server sent an invalid response for HOST",
      SERVERS,
    ],
    "name resolution was cut short": ["the look-up of the name HOST was cancelled", SERVERS],
    "name cannot be resolved": ["the name HOST could not be resolved", SERVERS],
    "connection was refused": ["no program listens at PEER", LISTEN],
    "connection was closed while connecting": [
      "PEER closed the connection while it was being opened",
      LISTEN,
    ],
    "connecting took too long": ["the connection to PEER took too long", REACH],
    "host cannot be reached": ["no route to the host PEER exists", REACH],
    "network cannot be reached": ["no route to the network of PEER exists", REACH],
    "too many open connections": [
      "the daemon could not open another connection",
      { operator: "raise the daemon's limit of open files (ulimit -n)" },
    ],
    "connection failed": ["the connection to PEER failed", REACH],
    "connection was closed without a response": [
      "PEER closed the connection without a response",
      RECEIVER,
    ],
    "connection reached another address": [
      "the connection to PEER reached another address, which was not checked",
      REACH,
    ],
    "certificate is for another name": [
      "the certificate of PEER is for another name than HOST",
      CERTIFICATE,
    ],
    "certificate has expired": ["the certificate of PEER has expired", CERTIFICATE],
    "certificate is not yet valid": [
      "the certificate of PEER is not valid yet",
      { anybody: CERTIFICATE, operator: "check the clock of the daemon's machine" },
    ],
    "certificate was revoked": ["the certificate of PEER was revoked", CERTIFICATE],
    "certificate is not trusted": [
      "the daemon does not trust the certificate of PEER",
      {
        anybody:
          "have the receiver send its complete certificate chain, from an authority that the daemon trusts",
        operator: "add the receiver's authority to webhooks.ca",
      },
    ],
    "connection was closed during the TLS handshake": [
      "PEER closed the connection during the TLS handshake",
      SPEAKS_TLS,
    ],
    "TLS handshake failed": ["PEER and the daemon could not agree on TLS", SPEAKS_TLS],
    "TLS failed": ["TLS with PEER failed after the handshake", RECEIVER],
    "response headers are too large": ["the headers of PEER's response are over 16 KiB", RECEIVER],
    "response is not valid HTTP": ["the response of PEER is not valid HTTP", LISTEN],
    "too many informational responses": [
      "PEER sent too many informational responses (1xx)",
      RECEIVER,
    ],
    "receiver switched protocols": [
      "PEER responded with 101 and switched protocols instead of sending a 2xx",
      "have it respond in plain HTTP",
    ],
    "status is not 2xx": ["PEER responded with a status other than 2xx", RECEIVER],
    "redirects are not followed": [
      "PEER redirected the request, and redirects are not followed",
      "post the final URL",
    ],
    "request cannot be written": ["the request could not be written", REPORT],
    "internal error": ["the daemon itself failed", REPORT],
    "its record could not be stored": ["the daemon could not store its record", REPORT],
    "timed out while resolving the name": [
      "the attempt timed out while the name HOST was being resolved",
      SERVERS,
    ],
    "timed out while connecting": [
      "the attempt timed out while a connection to PEER was being opened",
      REACH,
    ],
    "timed out during the TLS handshake": [
      "the attempt timed out during the TLS handshake with PEER",
      SPEAKS_TLS,
    ],
    "timed out waiting for the response": [
      "the attempt timed out before PEER responded",
      {
        anybody: "have it respond first and do its work afterwards",
        operator: "raise webhooks.timeout",
      },
    ],
    "sending was stopped": [
      "the daemon was stopped before HOST had responded, so HOST may have received it",
      RESEND,
    ],
    "the daemon stopped during the attempt": [
      "the daemon ended during the attempt, so HOST may have received it",
      RESEND,
    ],
    "withdrawn before it was sent": [
      "the attempt waited for a slot at HOST and was withdrawn before anything was sent",
      null,
    ],
    "the URL is refused": ["the rules for webhook URLs refuse the URL", null],
  }),
);

/** The reader of advice: the operator can change what the daemon does, an account has to ask for it. */
export type ReaderRole = "operator" | "account";

/** Actions that can be taken, as clauses in the imperative; at least one of the two. */
export interface Advice {
  readonly anybody?: string;
  readonly operator?: string;
}

/** Advice that its reader can follow: `raise X`, and for an account `ask the operator to raise X`. */
export function adviceText({ anybody, operator }: Advice, role: ReaderRole): string {
  const own = anybody === undefined ? [] : [anybody];
  if (operator === undefined) return own.join("");
  return [...own, role === "operator" ? operator : `ask the operator to ${operator}`].join(", or ");
}
