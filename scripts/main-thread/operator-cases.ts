import type { Caller } from "../kit/caller.ts";
import type { Cases } from "./measure.ts";
import type { World } from "./world.ts";

const ACCOUNTS = 200;
const REQUESTS = 501;
const ORDERS = 50;
const SINCE = new Date(Date.now() - 30 * 86_400_000).toISOString();

/** The requests of the operator. */
export async function operatorCases({ operator, anybody, account }: World) {
  let made = 0;
  const login = (): string => `account-${String(++made).padStart(55, "0")}`;
  const makeAccount = async (): Promise<string> => {
    const name = login();
    await operator.done(operator.post("/v1/operator/accounts", { login: name }));
    return name;
  };
  for (let i = 0; i < ACCOUNTS; i += 50) await Promise.all(Array.from({ length: 50 }, makeAccount));
  const filter = { since: SINCE, host: "nobody.example.com" };
  const order = operator.post("/v1/redeliveries", filter);
  await Promise.all(Array.from({ length: ORDERS }, () => operator.done(order)));
  const requests = await fillRequests(anybody, operator);
  const nextRequest = (): string => requests.pop() ?? "";
  const change = (how: string, name: string) =>
    operator.post(`/v1/operator/accounts/${how}/${name}`, "");
  const requestsPath = "/v1/operator/access_requests";
  return {
    preview: operator.post("/v1/redeliveries/preview", { since: SINCE }),
    order: order,
    orders: operator.get("/v1/redeliveries"),
    orderCancel: async () => {
      const text = await operator.done(order);
      return operator.delete(`/v1/redeliveries/${/"id":"([^"]+)"/.exec(text)?.[1] ?? ""}`);
    },
    accounts: operator.get("/v1/operator/accounts?limit=200"),
    accountCreate: async () => operator.post("/v1/operator/accounts", { login: login() }),
    accountDisable: async () => change("disable", await makeAccount()),
    accountEnable: change("enable", account.login),
    rotateSecret: async () => change("rotate", await makeAccount()),
    finishRotation: async () => {
      const name = await makeAccount();
      await operator.done(change("rotate", name));
      return change("finish", name);
    },
    accessRequests: operator.get(`${requestsPath}?which=all`),
    approve: async () =>
      operator.post(`${requestsPath}/approve/${nextRequest()}`, { login: login() }),
    deny: async () => operator.post(`${requestsPath}/deny/${nextRequest()}`, ""),
    runners: operator.get("/v1/operator/runners"),
    nodes: operator.get("/v1/operator/nodes"),
    ...(await pauseCases(operator)),
    audit: operator.get("/v1/operator/audit?limit=200"),
    system: operator.get("/v1/operator/system"),
    metrics: operator.get("/metrics"),
  } as const satisfies Cases;
}

const PAUSES_OF_OTHERS = 999;

async function pauseCases(operator: Caller) {
  const path = "/v1/operator/delivery_pauses";
  // Of hosts that nothing is sent to.
  const pause = (i: number) => operator.post(path, { host: `host-${i}.example.com` });
  for (let i = 1; i <= PAUSES_OF_OTHERS; i++) await operator.done(pause(i));
  return {
    pauses: operator.get(path),
    pause: pause(0),
    resume: async () => {
      await operator.done(pause(0));
      return operator.post(`${path}/resume`, { host: "host-0.example.com" });
    },
  } as const satisfies Cases;
}

async function fillRequests(anybody: Caller, operator: Caller): Promise<string[]> {
  const body = { email: "a@example.com", name: "ш".repeat(255), message: "ш".repeat(4000) };
  for (let left = REQUESTS; left > 0; left -= 50) {
    const ask = anybody.post("/v1/access_requests", body);
    await Promise.all(Array.from({ length: Math.min(50, left) }, () => anybody.done(ask)));
  }
  const text = await operator.done(operator.get("/v1/operator/access_requests"));
  return [...text.matchAll(/"id":"([^"]+)"/g)].map(([, id = ""]) => id);
}
