import type { DaemonFile } from "../bench/bench-daemon.ts";
import { createWorker, type DaemonProcess } from "../daemon-process.ts";

/** One operation with the worst input that the limits let through. */
export interface Case {
  readonly name: string;
  readonly input: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: string;
  /** Whose; none for what everybody may send. */
  readonly key?: string;
}

/** What the daemon of these cases has beside the usual types. */
export const CASES_TOML = `
[types.ascii]
command = ["sh", "-c", 'printf "\\""; head -c 4190000 /dev/zero | tr "\\0" x; printf "\\""']

[types.wide]
command = ["sh", "-c", 'printf "\\""; yes ä | head -n 1390000 | tr -d "\\n"; printf "\\""']

[types.leased]
runner = "worker"
`;

const KIB = 1024;
const MIB = 1024 * KIB;

/** Posts what the reads need, and makes the cases. */
export async function prepareCases(
  file: DaemonFile,
  daemon: DaemonProcess,
): Promise<readonly Case[]> {
  const { database, folder, program, account } = file;
  const worker = await createWorker(
    { name: "worker", types: ["leased"] },
    { program, folder, database },
  );
  const owner = new Owner(daemon.url, account.key);
  const ascii = await owner.postOne({ type: "ascii" });
  const wide = await owner.postOne({ type: "wide" });
  const parked = await owner.postOne({ type: "parked", input: "ä".repeat(MIB / 2 - 100) });
  const tag = "ä".repeat(255);
  const url = `https://example.com/${"x".repeat(1900)}`;
  const many = { tag, start_at: new Date(Date.now() + 86_400_000).toISOString() };
  for (let i = 0; i < 10; i++) await owner.postMany({ ...many, type: "parked", postback_url: url });
  for (let i = 0; i < 10; i++) await owner.postMany({ tag, type: "echo" });
  for (const id of [ascii, wide]) await owner.ended(id);
  return [
    ...constantCases(),
    ...readCases({ ascii, wide, parked, tag: encodeURIComponent(tag), key: account.key }),
    ...bodyCases({ key: account.key, worker }),
  ];
}

function constantCases(): readonly Case[] {
  const paths = ["/livez", "/readyz", "/openapi.json", "/dashboard/", "/v1/appendix/status_codes"];
  return paths.map((path) => ({ name: `GET ${path}`, input: "", method: "GET", path }));
}

function readCases({ ascii, wide, parked, tag, key }: Record<string, string>): readonly Case[] {
  const get = (name: string, input: string, path: string): Case => {
    return { name, input, method: "GET", path, ...(key && { key }) };
  };
  return [
    get("task_get", "result of 4 MiB, ASCII", `/v1/tasks/task_get/${ascii}`),
    get("task_get", "result of 2.8 MB, not Latin-1", `/v1/tasks/task_get/${wide}`),
    get("task_get", "input of 1 MiB, queued", `/v1/tasks/task_get/${parked}`),
    get("list of tasks", "1000 tasks with long URLs and tags", "/v1/tasks?limit=1000"),
    get("list of tasks", "three filters", `/v1/tasks?limit=1000&tag=${tag}&type=echo&state=queued`),
    get("tasks_ready", "1000 tasks", "/v1/tasks/tasks_ready?limit=1000"),
    get("tasks_ready", "two filters", `/v1/tasks/tasks_ready?limit=1000&tag=${tag}&type=echo`),
    get("user_data", "", "/v1/appendix/user_data"),
    get("search", "100 tasks", "/v1/tasks/search?limit=100"),
    get("timeline", "result of 4 MiB", `/v1/tasks/timeline/${ascii}`),
  ];
}

function bodyCases({ key, worker }: Record<string, string>): readonly Case[] {
  const post = (
    name: string,
    input: string,
    request: Pick<Case, "path" | "body" | "key">,
  ): Case => {
    return { name, input, method: "POST", ...request };
  };
  const digits = "1e9,".repeat((MIB - 200) / 4);
  const access = { path: "/v1/access_requests" };
  const posting = { path: "/v1/tasks/task_post", ...(key && { key }) };
  const held = { type: "parked", start_at: new Date(Date.now() + 86_400_000).toISOString() };
  const hundred = Array.from({ length: 100 }, () => ({ ...held, input: "x".repeat(10 * KIB) }));
  const complete = { path: "/v1/worker/complete", ...(worker && { key: worker }) };
  return [
    post("access_requests", "1 MiB of `1e9,`", { ...access, body: `[${digits}1]` }),
    post("task_post", "100 tasks, 1 MB", { ...posting, body: JSON.stringify(hundred) }),
    post("task_post", "1 MiB of `1e9,`", {
      ...posting,
      body: `[{"type":"parked","input":[${digits}1]}]`,
    }),
    post("task_post", "1 MiB of `0,`", {
      ...posting,
      body: `[{"type":"parked","input":[${digits.replaceAll("1e9,", "0,0,")}1]}]`,
    }),
    post("task_post", "1 MiB of `[`", { ...posting, body: "[".repeat(MIB - 10) }),
    post("worker complete", "16 MiB of `1e9,`", {
      ...complete,
      body: `{"tasks":[${digits.repeat(15)}1]}`,
    }),
  ];
}

/** The account that posts. */
class Owner {
  readonly #url: string;
  readonly #key: string;

  constructor(url: string, key: string) {
    this.#url = url;
    this.#key = key;
  }

  async postOne(task: object): Promise<string> {
    const { tasks } = await this.#post([task]);
    const [posted] = tasks;
    if (posted === undefined) throw new Error("task_post answered no task");
    return posted.id;
  }

  async postMany(task: object): Promise<void> {
    await this.#post(Array.from({ length: 100 }, () => task));
  }

  /** Settles when a task has ended, which `Prefer: wait` waits for. */
  async ended(id: string): Promise<void> {
    const headers = { authorization: `Bearer ${this.#key}`, prefer: "wait=60" };
    const target = `${this.#url}/v1/tasks/task_get/${id}?collect=false`;
    const answer = await fetch(target, { headers });
    const text = await answer.text();
    if (!text.includes('"state":"completed"')) throw new Error(`${id}: ${text.slice(0, 500)}`);
  }

  async #post(tasks: readonly object[]): Promise<{ readonly tasks: readonly { id: string }[] }> {
    const answer = await fetch(`${this.#url}/v1/tasks/task_post`, {
      method: "POST",
      headers: { authorization: `Bearer ${this.#key}`, "content-type": "application/json" },
      body: JSON.stringify(tasks),
    });
    if (answer.status !== 200) throw new Error(`task_post: ${(await answer.text()).slice(0, 500)}`);
    return (await answer.json()) as { tasks: { id: string }[] };
  }
}
