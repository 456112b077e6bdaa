// What a user of the library does, with names alone that every runtime has: the same in each of them.
import { createClient, PostbackdError } from "postbackd/client";
import { verifyPostback, verifyRequest } from "postbackd/verify";

/**
 * Tries everything against a daemon, and says in JSON what became of each: "passed", or how it failed. `webhooks` are a
 * postback and a pingback as the daemon sent them to a receiver.
 */
export async function tryAll({ url, key, secret, webhooks }) {
  const client = createClient({ url, key });
  const attempts = {
    post: () => post(client),
    pages: () => pages(client),
    stream: () => stream(client),
    error: () => refused(client, url),
    abort: () => abort({ url, key }),
    verify: () => verify(webhooks, secret),
  };
  const outcomes = {};
  for (const [name, attempt] of Object.entries(attempts)) {
    outcomes[name] = await inTime(attempt()).then(
      () => "passed",
      (error) => String(error),
    );
  }
  return JSON.stringify(outcomes);
}

/** A part that hangs is named, and the others are tried. */
function inTime(attempt) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(reject, 20_000, new Error("it has not ended in 20 s"));
  });
  return Promise.race([attempt, late]).finally(() => clearTimeout(timer));
}

async function post(client) {
  const { id } = await client.tasks.post({ input: ["ü😀"], tag: "one" });
  const ended = await client.tasks.wait(id);
  same([ended.state, ended.result], ["completed", ["ü😀"]]);
  const { result } = await client.tasks.run({ input: { n: 2 } });
  same(result, { n: 2 });
}

async function pages(client) {
  const tasks = Array.from({ length: 250 }, (_, n) => ({ input: n, tag: "many" }));
  const posted = await client.tasks.postMany(tasks);
  const listed = new Set();
  for await (const { id } of client.tasks.list({ tag: "many" })) listed.add(id);
  same([listed.size, posted.filter(({ id }) => listed.has(id)).length], [250, 250]);
}

async function stream(client) {
  const counts = [];
  for await (const { tasks } of client.account.changes()) {
    counts.push(typeof tasks.waiting);
    break;
  }
  same(counts, ["number"]);
}

async function refused(client, url) {
  const { key, key_id } = await client.keys.create({ label: "lost" });
  await client.keys.revoke(key_id);
  const stranger = createClient({ url, key });
  const error = await rejection(stranger.account.get());
  same([error instanceof PostbackdError, error.code, error.status], [true, 40101, 401]);
}

async function abort({ url, key }) {
  const controller = new AbortController();
  const reason = new Error("enough");
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString();
  const client = createClient({ url, key });
  const { id } = await client.tasks.post({ input: 1, start_at: inAnHour });
  const waiting = createClient({
    url,
    key,
    fetch: (input, init) => {
      const answer = fetch(input, init);
      // Once the request is on its way.
      controller.abort(reason);
      return answer;
    },
  });
  const error = await rejection(waiting.tasks.wait(id, { signal: controller.signal }));
  same([error === reason, error.message], [true, "enough"]);
  await client.tasks.cancel(id);
}

async function verify(webhooks, secret) {
  same(webhooks.map(({ method }) => method).toSorted(), ["GET", "POST"]);
  for (const { method, url, headers, body } of webhooks) {
    const sent = () => new Request(url, { method, headers, ...(method === "POST" && { body }) });
    same(await verifyRequest(sent(), ["whsec_another", secret]), true);
    same(await verifyRequest(sent(), "whsec_another"), false);
    if (method === "GET") continue;
    const bytes = new TextEncoder().encode(body);
    same(await verifyPostback(bytes, headers["x-signature"], secret), true);
    same(await verifyPostback(`${body} `, headers["x-signature"], secret), false);
  }
}

function rejection(promise) {
  return promise.then(
    () => new Error("nothing was thrown"),
    (error) => error,
  );
}

function same(actual, expected) {
  const [is, wanted] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== wanted) throw new Error(`${is} instead of ${wanted}`);
}
