/**
 * Every limit between a client's first packet and the last byte of its response, in the order in which a request meets
 * them, each with its reason. "Measured" is on two cores; docs/project/performance.md has the method. Settings (`limits.*`) and
 * their defaults stand in config/setting.ts, the limits of small chunks, which responses of services have too, in
 * domain/json/chunks.ts. Below this file four mechanisms apply the limits:
 *
 * | file | counts | by | at the limit |
 * |---|---|---|---|
 * | connections.ts | connections | address | the longest idle, else the slowest one of the largest address is closed |
 * | turns.ts | requests begun in a turn of the event loop | health check, address, credential | the request waits |
 * | room.ts | bytes of bodies and responses; waiting requests | account, worker, address | waits 5 s, then 42900 or 50300 |
 * | quota.ts | events in a window | account, address | 42900 |
 */

// Connections (connections.ts, server/server.ts). How many there are is `limits.connections`.

/** Connections the kernel holds until Node accepts them, if net.core.somaxconn allows it; a refused one tries again after 1 s. */
export const ACCEPT_QUEUE_MAX = 4096;
/** Of all connections one address may have this part: the kernel holds up to 650 KiB of unread response for each. */
export const SHARE_OF_ADDRESS = 1 / 4;
/** One client can work with so many, however few there are in all. */
export const ADDRESS_PLACES_MIN = 256;
/** Connections beyond the limit for health checks and the operator. */
export const RESERVE_PLACES = 16;
/** A request or response that has been in transfer for so long may lose its connection to a new one. */
export const SLOW_FROM_MS = 1000;
/** Longer than common proxies and clients keep an idle connection: otherwise they use a connection that is being closed. */
export const KEEP_ALIVE_TIMEOUT_MS = 65_000;
export const HEADERS_COUNT_MAX = 100;
/** How often Node looks for requests that take too long. */
export const TIMEOUT_CHECK_MS_MAX = 5_000;
/** Connections to `metrics.listen`: a Prometheus server keeps one, and few other clients connect. */
export const METRICS_LIMITS = {
  connections: 32,
  headerTimeoutMs: 10_000,
  requestTimeoutMs: 10_000,
  sendTimeoutMs: 10_000,
};

// Turns (turns.ts).

/** Requests of one connection that wait for the one before; beyond them the connection is not read. */
export const WAITING_MAX = 10;
/** The same over all connections of an address, and of all addresses: each takes some KiB. Beyond them clients are cut off. */
export const IN_LINE_OF_ADDRESS_MAX = 2_000;
export const IN_LINE_MAX = 10_000;
/** How long requests are begun in one turn of the event loop. A request takes 0.1 ms, so a few busy clients never wait. */
export const TURN_MS = 5;
/** The most requests begun in one turn. */
export const TURN_REQUESTS_MAX = 64;
/**
 * While connections arrive without pause, how long they are accepted, and how long requests run then. Node accepts one
 * connection per turn of the event loop. With 8 and 5 ms the p50 of all clients was 1.9 s instead of 0.6 (measured with
 * all attacks of `npm run bench -- siege` at the same time).
 */
export const ARRIVALS_MS = 3;
export const OTHERS_MS = 10;

// Room (room.ts, body.ts).

/** Bytes of unfinished bodies and unread responses in all: a quarter of a small machine's memory, or some largest bodies. */
export const ROOM_BYTES_MIN = 64 * 1024 ** 2;
export const LARGEST_BODIES = 4;
/** Nothing counts as more than this part of the room: a larger body would never get it. */
export const LARGEST_PART = 1 / 4;
/** A client that holds nothing gets room until all clients hold so many times the room. */
export const NEWCOMER_FACTOR = 4;
export const ROOM_WAIT_MS_MAX = 5000;
/** Requests that wait for room, of one client and of all. */
export const ROOM_WAITS_PER_HOLDER_MAX = 1024;
export const ROOM_WAITS_MAX = 4096;
/** Bytes of a body that take room without waiting: Node keeps so many unread for each connection anyway. */
export const UNASKED_BYTES = 64 * 1024;
/** Bytes that a response counts as before it exists: most are far smaller, lists of a thousand tasks are as large. */
export const ANSWER_BYTES_GUESS = 1024 ** 2;
/** A text is in memory twice while it is sent: as text, and as bytes that the kernel has not taken. */
export const TEXT_COPIES = 2;
/** Of all connections this part may have a waiting request (`Prefer: wait`, claims, streams). */
export const WAITING_SHARE = 1 / 2;

// Bodies (body.ts). A body of tasks or leases may have `limits.body`.

/** Of other bodies: ten times their fields. Clients without a key may send them, so they must cost nearly nothing. */
export const SMALL_BODY_BYTES = 8 * 1024;
/** The longest message of an access request in any script, escaped to ASCII. */
export const MESSAGE_BODY_BYTES = 32 * 1024;
/** Bytes of a body per byte of `limits.result`: text escaped to ASCII takes up to three times its UTF-8. */
export const BYTES_PER_RESULT_BYTE = 4;
/** Depth of a body of results. A result that is too deep fails its own run, so the body's other results are still read. */
export const RESULT_BODY_DEPTH_MAX = 1000;
/** Larger bodies are parsed in the parser thread: the worst of 64 KiB, names that all differ, takes 4 ms (measured). */
export const SHORT_BODY_BYTES = 64 * 1024;
/** Credentials are checked again after a body that took longer: a revoked key would count as long as its body is drawn out. */
export const UNCHECKED_MS_MAX = 1000;

// Rates (quota.ts). The limits themselves are settings and `RatePolicy` rows.

/** Keys that one limit counts at the same time; a further key displaces the one whose window began first. */
export const RATE_KEYS_MAX = 10_000;
/** An account beyond so many refusals per minute ignores Retry-After: the operator is notified. */
export const REFUSALS_PER_MINUTE = 60;
/** Addresses with refused credentials that get a log line of their own each minute; enough to see an attack. */
export const LOGGED_ADDRESSES_MAX = 100;

// Sending and closing (server/closing.ts).

/** A client that reads a response slower than this is cut off after `limits.send_timeout`. */
export const BYTES_PER_SECOND_MIN = 1024;
/** Bytes, time and silence of a client that still sends a body after its refusal: clients write all before they read. */
export const LINGER_BYTES_MAX = 64 * 1024 ** 2;
export const LINGER_MS_MAX = 30_000;
export const LINGER_SILENT_MS_MAX = 5000;
/** Connections that linger; the oldest one gives way. */
export const LINGERING_MAX = 64;

// Streams of events (live-feed.ts).

/** Open streams of one session or key, of one account, and of all. */
export const STREAMS_PER_CREDENTIAL_MAX = 10;
export const STREAMS_PER_ACCOUNT_MAX = 50;
export const STREAMS_MAX = 200;
