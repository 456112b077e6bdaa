import { NODE_NAME, TYPE_NAME } from "../domain/lease/lease.ts";
import {
  DURATION,
  PLAIN_TEXT,
  TRUTH,
  integerBetween,
  listOf,
  oneOf,
  sizeBetween,
} from "../domain/rule.ts";
import {
  DATABASE,
  EVENTS_SECRET,
  EVENTS_URL,
  LISTEN_ADDRESS,
  LISTEN_HOST,
  NAME_SERVER,
  NETWORK,
  ORIGIN,
  PATH,
  SCHEDULE,
  SHOWN_METRICS_TOKEN,
  type Setting,
  setting,
} from "./setting-rule.ts";

/** The path at which the packages and `postbackd service install` put the configuration of this machine's service. */
export const SERVICE_CONFIG_FILE = "/etc/postbackd/postbackd.toml";

export const CONFIG_FILE: Setting<string | null> = setting("config", PATH, {
  flag: "config",
  inFile: false,
  default: null,
  description: `Configuration file; ./postbackd.toml, else (not start, dev) ${SERVICE_CONFIG_FILE}`,
});

/**
 * Every other setting, in the place of its value in {@link SettingValues}: units last. The only source of keys, flags,
 * variables, defaults and help lines; `[types.NAME]` and `[[marketplaces]]` are tables of their own, in the file only.
 */
export const SETTINGS = {
  database: setting("database", DATABASE, {
    flag: "db",
    mayBeInFile: true,
    default: "./postbackd.db",
    description: "Database file or postgres URL",
  }),
  host: setting("host", LISTEN_HOST, {
    flag: "host",
    default: "127.0.0.1",
    description: "Address or name to listen on",
  }),
  port: setting("port", integerBetween(0, 65_535), {
    flag: "port",
    default: 8787,
    description: "Port to listen on; 0 picks a free one",
  }),
  readyFile: setting("ready_file", PATH, {
    flag: "ready-file",
    default: null,
    description: "File that gets the ready line, written whole",
  }),
  allowNetworkFs: setting("allow_network_fs", TRUTH, {
    flag: "allow-network-fs",
    default: false,
    description: "Serve a database on a network file system",
  }),
  insecureHttp: setting("insecure_http", TRUTH, {
    flag: "insecure-http",
    default: false,
    description: "Serve plain HTTP beyond loopback: keys are readable on the network",
  }),
  trustedProxies: setting("trusted_proxies", listOf(NETWORK), {
    flag: "trusted-proxy",
    default: [],
    description: "Network of a proxy that does HTTPS and may name the client",
  }),
  tls: {
    cert: setting("tls_cert", PATH, {
      flag: "tls-cert",
      default: null,
      description: "Certificate chain (PEM) to serve HTTPS with; read again on SIGHUP",
    }),
    key: setting("tls_key", PATH, {
      flag: "tls-key",
      default: null,
      description: "Private key (PEM) of the certificate",
    }),
  },
  dashboard: setting("dashboard", TRUTH, {
    flag: "no-dashboard",
    isOffFlag: true,
    flagDescription: "Serve no dashboard",
    default: true,
    description: "Serve the dashboard",
  }),
  publicUrl: setting("public_url", ORIGIN, {
    flag: "public-url",
    default: null,
    description: "URL of the dashboard, if it is not the address listened on",
  }),
  notify: setting("notify", TRUTH, {
    flag: "no-notify",
    isOffFlag: true,
    flagDescription:
      "Neither send nor receive notifications through PostgreSQL: for a pooler without LISTEN",
    default: true,
    description: "Notify other nodes of work immediately; without it they poll once a second",
  }),
  node: {
    name: setting("node.name", NODE_NAME, {
      flag: "node-name",
      default: null,
      description:
        "Name of this daemon among those that share a server; the machine's unless given",
    }),
    url: setting("node.url", ORIGIN, {
      flag: "node-url",
      default: null,
      description: "URL at which this daemon alone is reached; for people",
    }),
    stateFolder: setting("node.state_folder", PATH, {
      default: null,
      description: "Folder for the lock of the name; one in the temporary folder unless given",
    }),
  },
  runTypes: setting("run_types", listOf(TYPE_NAME), {
    flag: "run-type",
    default: [],
    description: "Type whose tasks this daemon runs itself; all unless given",
  }),
  webhooks: {
    timeoutMs: setting("webhooks.timeout", DURATION, {
      default: "10s",
      description: "Time for one delivery attempt, name resolution included",
    }),
    retryAfterMs: setting("webhooks.retry_after", listOf(DURATION), {
      default: ["1m", "5m", "15m"],
      description: "Wait before each retry, counted from the failure",
    }),
    maxInFlight: setting("webhooks.max_in_flight", integerBetween(16, 10_000), {
      default: 512,
      description: "Concurrent delivery attempts, in all",
    }),
    maxInFlightPerHost: setting("webhooks.max_in_flight_per_host", integerBetween(1, 10_000), {
      default: 32,
      description: "Concurrent delivery attempts to one host",
    }),
    allow: setting("webhooks.allow", listOf(PLAIN_TEXT), {
      flag: "allow-target",
      default: [],
      description: "Webhook target that need not be public: CIDR, address or host, [:port]",
    }),
    ca: setting("webhooks.ca", PATH, {
      default: null,
      description: "File with authorities (PEM) that webhooks trust besides the system's",
    }),
    dnsServers: setting("webhooks.dns_servers", listOf(NAME_SERVER), {
      flag: "dns-server",
      default: [],
      description: "Name server for webhook hosts; the system's unless given",
    }),
  },
  retentionDays: setting("retention_days", integerBetween(1, 36_500), {
    default: 30,
    description: "Days that a finished task is kept",
  }),
  limits: {
    bodyBytes: setting("limits.body", sizeBetween(1024, 256 * 1024 ** 2), {
      default: "1MiB",
      description: "Largest request body",
    }),
    tasksPerPost: setting("limits.tasks_per_post", integerBetween(1, 1_000), {
      default: 100,
      description: "Most tasks in one task_post",
    }),
    resultBytes: setting("limits.result", sizeBetween(1024, 256 * 1024 ** 2), {
      default: "4MiB",
      description: "Largest result of a task",
    }),
    queueDays: setting("limits.queue_days", integerBetween(1, 36_500), {
      default: 30,
      description: "Days that a task may wait in the queue while the daemon runs; then it fails",
    }),
    writeBacklog: setting("limits.write_backlog", integerBetween(256, 1_000_000), {
      default: 10_000,
      description: "Writes that may wait for the disk; beyond it, new tasks get 50300",
    }),
    /** For each account without limits of its own. */
    account: {
      requestsPerMinute: setting("limits.requests_per_minute", integerBetween(0, 1_000_000), {
        default: 0,
        description: "Requests of one account per minute; 0 means no limit",
      }),
      bytes: setting("limits.account.bytes", sizeBetween(0, 2 ** 50), {
        default: "10GiB",
        description: "Data of one account at which its posts are refused; 0 means no limit",
      }),
      openTasks: setting("limits.account.open_tasks", integerBetween(0, 1_000_000_000), {
        default: 1_000_000,
        description: "Waiting and running tasks of one account; 0 means no limit",
      }),
      tasksPerMinute: setting("limits.account.tasks_per_minute", integerBetween(0, 1_000_000_000), {
        default: 0,
        description: "Posted tasks of one account per minute; 0 means no limit",
      }),
    },
    failedAuthenticationsPerMinute: setting(
      "limits.failed_authentications_per_minute",
      integerBetween(0, 1_000_000),
      {
        default: 300,
        description: "Failed authentications per address and minute; 0 means no limit",
      },
    ),
    accessRequestsPerHour: setting(
      "limits.access_requests_per_hour",
      integerBetween(0, 1_000_000),
      { default: 20, description: "Access requests from one address per hour; 0 means no limit" },
    ),
    connections: setting("limits.connections", integerBetween(1, 65_535), {
      default: 4096,
      description: "Concurrent client connections",
    }),
    headerTimeoutMs: setting("limits.header_timeout", DURATION, {
      default: "10s",
      description: "Time for a request's headers to arrive",
    }),
    requestTimeoutMs: setting("limits.request_timeout", DURATION, {
      default: "30s",
      description: "Time for a whole request to arrive, body included",
    }),
    sendTimeoutMs: setting("limits.send_timeout", DURATION, {
      default: "30s",
      description: "Time after which a client that reads nothing of a response is disconnected",
    }),
    diskFreeBytes: setting("limits.disk_free", sizeBetween(0, 2 ** 50), {
      default: "128MiB",
      description: "Free disk space below which posts are refused; 0 means no limit",
    }),
    databaseBytes: setting("limits.database_size", sizeBetween(0, 2 ** 50), {
      default: 0,
      description: "Size of the data in the database at which posts are refused; 0 means no limit",
    }),
  },
  backup: {
    schedule: setting("backup.schedule", SCHEDULE, {
      default: null,
      description: "When the daemon makes a backup, as in a crontab, in UTC; by default never",
    }),
    folder: setting("backup.folder", PATH, {
      default: null,
      description: "Folder of the scheduled backups; by default backups next to the database",
    }),
    keep: setting("backup.keep", integerBetween(1, 10_000), {
      default: 14,
      description: "Scheduled backups to keep; the oldest are removed first",
    }),
  },
  metrics: {
    listen: setting("metrics.listen", LISTEN_ADDRESS, {
      flag: "metrics",
      default: null,
      description: "Address that serves /metrics without a key; by default off",
    }),
    token: setting("metrics.token", SHOWN_METRICS_TOKEN, {
      mayBeInFile: true,
      default: null,
      description: "Bearer token that reads /metrics at the API's address",
    }),
  },
  events: {
    url: setting("events.url", EVENTS_URL, {
      flag: "events-url",
      mayBeInFile: true,
      default: null,
      description: "URL that receives the operator's events as signed webhooks",
    }),
    secret: setting("events.secret", EVENTS_SECRET, {
      mayBeInFile: true,
      default: null,
      description: "Secret that signs the alerts: whsec_ and the Base64 of 32 random bytes",
    }),
  },
  log: {
    level: setting("log.level", oneOf(["debug", "info", "warn", "error", "silent"]), {
      flag: "log-level",
      default: "info",
      description: "Least severe log line that is written",
    }),
    format: setting("log.format", oneOf(["auto", "json", "text"]), {
      flag: "log-format",
      default: "auto",
      description: "Form of the log; auto is text on a terminal and JSON lines elsewhere",
    }),
    requests: setting("log.requests", TRUTH, {
      default: false,
      description: "Log a line for every request",
    }),
  },
} as const;

interface SettingTable {
  readonly [name: string]: Setting | SettingTable;
}

type ValuesOf<Table> = {
  readonly [Name in keyof Table]: Table[Name] extends Setting<infer T> ? T : ValuesOf<Table[Name]>;
};

export type SettingValues = ValuesOf<typeof SETTINGS>;

export function readSettings(read: (setting: Setting) => unknown): SettingValues {
  // Each name holds the value that its own setting's rule gave.
  return readTable(SETTINGS, read) as SettingValues;
}

function readTable(table: SettingTable, read: (setting: Setting) => unknown): unknown {
  const entries = Object.entries(table);
  return Object.freeze(
    Object.fromEntries(
      entries.map(([name, entry]) => [
        name,
        isSetting(entry) ? read(entry) : readTable(entry, read),
      ]),
    ),
  );
}

function isSetting(entry: Setting | SettingTable): entry is Setting {
  return "rule" in entry;
}

function settingsOf(table: SettingTable): readonly Setting[] {
  return Object.values(table).flatMap((entry) => (isSetting(entry) ? entry : settingsOf(entry)));
}

/** All settings in the order of their rows, for help texts, checks and documents. */
export const SETTING_LIST: readonly Setting[] = Object.freeze([
  CONFIG_FILE,
  ...settingsOf(SETTINGS),
]);

/** Sections of the file that hold settings: `webhooks`, `limits`, `limits.account`, `backup`, `log`. */
export const SETTING_SECTIONS: readonly string[] = Object.freeze([
  ...new Set(SETTING_LIST.map(sectionOf).filter((section) => section !== "")),
]);

/** The section of the file that holds a setting; empty for those above the first section. */
export function sectionOf({ key }: Pick<Setting, "key">): string {
  return key.slice(0, Math.max(0, key.lastIndexOf(".")));
}
