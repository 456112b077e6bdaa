/** The most that an operation may cost the main thread, with the worst input that the limits let through. */
export interface Bound {
  /** Its name in the API's document; null for work without a request. */
  readonly operation: string | null;
  readonly what: string;
  /** The worst request. */
  readonly worst: string;
  /** Milliseconds of the main thread's time. */
  readonly ms: number;
  /** The reason where it is more than {@link UNEXPLAINED_MS_MAX}. */
  readonly why?: string;
}

/** How long everybody may have to wait for somebody else's request without an explanation. */
export const UNEXPLAINED_MS_MAX = 5;

const METRICS = "two megabytes of text are put together when every type has a dozen series";

const LISTED = "a thousand rows come from the reader's thread and are written as JSON";
const RECEIVED =
  "16 MiB are read from the socket: in some 300 pieces, with others' turns in between";
const PARSED = "it goes to the parser's thread, from it, to the writer's, and out as the answer";
const LEASES =
  "1000 leases come from the parser's thread, go to the writer's and are answered one by one";
const PAUSES = "a hundred of a thousand are counted, each in the reader's thread by itself";
const SENT_BYTES = "4 MiB come from another thread, and go to the next or to a socket, in pieces";

/**
 * Every operation, and the work that is done without a request. An operation that exceeds its bound on an idle
 * machine must be fixed, and its bound not raised. Long work is parsed, read and put together in other threads; what
 * is left here is some hundred rows, or the way of some MiB to or from a socket.
 */
export const BOUNDS = {
  livez: row(["isAlive", "GET /livez", ""], 2),
  readyz: row(["isReady", "GET /readyz", ""], 2),
  openapi: row(["getOpenApi", "GET /openapi.json", ""], 3),
  page: row([null, "GET /dashboard/", ""], 2),
  pageScript: row([null, "GET /dashboard/assets", "its largest file, as it is"], 3),
  reference: row([null, "GET /docs", "the page, made before"], 3),
  statusCodes: row(["listStatusCodes", "status_codes", ""], 2),
  marketplaces: row(["listMarketplaces", "marketplaces", ""], 2),
  types: row(["listTypes", "types", ""], 2),
  status: row(["getStatus", "status", ""], 2),

  taskGetAscii: row(["getTask", "task_get", "result of 4 MiB, ASCII"], 5),
  taskGetWide: row(["getTask", "task_get", "result of 2.8 MB, not Latin-1"], 5),
  taskGetInput: row(["getTask", "task_get", "input of 1 MiB"], 4),
  tasks: row(["listTasks", "list of tasks", "1000 with long URLs, tags not Latin-1"], 12, LISTED),
  tasksFiltered: row(["listTasks", "list of tasks", "1000, three filters"], 12, LISTED),
  ready: row(["listReadyTasks", "tasks_ready", "1000, tags not Latin-1"], 12, LISTED),
  readyHundred: row(["listReadyTasks", "tasks_ready", "100, read on the main thread"], 4),
  readyFiltered: row(["listReadyTasks", "tasks_ready", "1000, two filters"], 12, LISTED),
  search: row(["searchTasks", "search", "200 tasks, with webhooks"], 5),
  deliveries: row(
    ["listDeliveries", "deliveries of a task", "200 attempts"],
    10,
    "200 attempts, each with what the receiver answered, are written as JSON",
  ),
  attempts: row(
    ["listAttempts", "attempts of all webhooks", "1000 that are scheduled"],
    12,
    LISTED,
  ),
  timeline: row(
    ["getTimeline", "timeline", "200 attempts, result of 4 MiB"],
    30,
    "the postback is signed again, to show what was sent: twice over 4 MiB",
  ),
  userData: row(["getUserData", "user_data", "a key and 50 revoked ones"], 3),

  taskPost: row(["postTasks", "task_post", "100 tasks, 1 MB"], 10, PARSED),
  taskPostUrls: row(["postTasks", "task_post", "100 tasks with long URLs and tags"], 10, PARSED),
  taskPostDigits: row(["postTasks", "task_post", "1 MiB of `1e9,`"], 12, PARSED),
  taskPostArray: row(["postTasks", "task_post", "1 MiB of `0,`"], 12, PARSED),
  taskPostDeep: row(
    ["postTasks", "task_post", "1 MiB of `[`"],
    8,
    "1 MiB is read and goes to the parser's thread",
  ),
  taskPostShort: row(
    ["postTasks", "task_post", "64 KiB of names, parsed on the main thread"],
    10,
    "64 KiB are the most that is parsed here: names that are all different are the worst",
  ),
  taskPostAgain: row(
    ["postTasks", "task_post", "1 MB with a key that was used"],
    8,
    "1 MB is read, parsed elsewhere and hashed; the kept answer is as large",
  ),
  taskCancel: row(["cancelTask", "task_cancel", "input of 1 MiB"], 5),
  taskCancelMany: row(
    ["cancelTasks", "cancel", "1,000 queued tasks"],
    15,
    "a thousand are found and cancelled in ten steps, with others' turns in between",
  ),
  redeliver: row(["redeliver", "redeliver", "of a queued task"], 5),
  keyCreate: row(["createKey", "make a key", "50 revoked ones before"], 3),
  keyRevoke: row(["revokeKey", "revoke a key", "50 revoked ones before"], 3),

  claim: row(
    ["claimTasks", "worker claim", "100 tasks, 1 MB"],
    8,
    "100 tasks with 1 MB come from the writer's thread, and go out",
  ),
  claimLarge: row(
    ["claimTasks", "worker claim", "tasks with inputs of 1 MiB"],
    15,
    "a claim ends with the input that makes 1 MiB of it: up to 2 MiB",
  ),
  heartbeat: row(["heartbeatLeases", "worker heartbeat", "1000 leases with progress"], 8, LEASES),
  complete: row(["completeTasks", "worker complete", "100 results, 16 MiB"], 60, RECEIVED),
  completeDigits: row(["completeTasks", "worker complete", "16 MiB of `1e9,`"], 60, RECEIVED),
  fail: row(["failTasks", "worker fail", "100 with details, 16 MiB"], 100, RECEIVED),
  release: row(["releaseLeases", "worker release", "1000 leases"], 8, LEASES),

  accessRequest: row(["requestAccess", "access request", "4000 characters, escaped"], 3),
  accessRequestLarge: row(["requestAccess", "access request", "1 MiB"], 3),

  session: row(["getSession", "session", ""], 2),
  signIn: row(["signIn", "sign in", "a wrong key"], 3),
  signInByLink: row(["signInByLink", "sign in by link", "a wrong token"], 3),
  signOut: row(["signOut", "sign out", "without a session"], 2),
  events: row(["streamEvents", "events", "opened, up to its first event"], 3),

  overview: row(
    ["getOverview", "stats overview", "of all, 200 hosts"],
    15,
    "1,440 minutes are added up, once a second for all who look",
  ),
  series: row(
    ["getSeries", "stats series", "of all, 30 days"],
    15,
    "1,500 minutes and 700 hours are added up",
  ),
  hosts: row(["listHosts", "stats hosts", "of all, 200 hosts"], 5),

  preview: row(["previewRedelivery", "redelivery preview", "every attempt"], 5),
  order: row(["orderRedelivery", "redelivery order", ""], 3),
  orders: row(["listRedeliveries", "redelivery orders", "50"], 3),
  orderCancel: row(["cancelRedelivery", "redelivery cancel", ""], 3),

  accounts: row(["listAccounts", "operator: accounts", "200"], 5),
  accountCreate: row(["createAccount", "operator: make an account", ""], 3),
  accountDisable: row(["disableAccount", "operator: disable an account", ""], 3),
  accountEnable: row(["enableAccount", "operator: enable an account", ""], 3),
  rotateSecret: row(["rotateSecret", "operator: rotate a secret", ""], 3),
  finishRotation: row(["finishRotation", "operator: finish a rotation", ""], 3),
  accessRequests: row(
    ["listAccessRequests", "operator: access requests", "of 4000 characters each"],
    10,
    "a page holds 256 Ki characters, of two bytes each",
  ),
  approve: row(["approveAccessRequest", "operator: approve a request", ""], 3),
  deny: row(["denyAccessRequest", "operator: deny a request", ""], 3),
  runners: row(["listRunners", "operator: runners", ""], 3),
  nodes: row(["listNodes", "operator: nodes", ""], 3),
  pauses: row(["listDeliveryPauses", "operator: pauses", "1000"], 10, PAUSES),
  pause: row(["pauseDeliveries", "operator: pause", "a host, 999 others"], 5),
  resume: row(["resumeDeliveries", "operator: resume", "a host, 999 others"], 5),
  audit: row(["listAudit", "operator: audit", "200 entries"], 5),
  system: row(["getSystem", "operator: system", ""], 3),
  metrics: row(["getMetrics", "operator: metrics", "1000 types"], 10, METRICS),

  runEcho: row(
    [null, "100 tasks run", "posted, claimed, run and recorded; 1 MB"],
    40,
    "each run is claimed, ended and recorded",
  ),
  runCommand: row([null, "a command's run", "result of 4 MiB"], 40, SENT_BYTES),
  runService: row([null, "a service's run", "answer of 4 MB"], 50, SENT_BYTES),
  postback: row(
    [null, "a postback", "4 MiB, ordered, made, signed, sent"],
    40,
    "4 MiB are read, signed twice and sent",
  ),
} as const satisfies Record<string, Bound>;

export type BoundName = keyof typeof BOUNDS;

function row(
  [operation, what, worst]: readonly [operation: string | null, what: string, worst: string],
  ms: number,
  why?: string,
): Bound {
  return { operation, what, worst, ms, ...(why !== undefined && { why }) };
}
