import type { Ask, Caller } from "../kit/caller.ts";
import type { Cases } from "./measure.ts";
import { LATER, TAG, type World } from "./world.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

/** The posts of accounts and of everybody. */
export async function postCases({ anybody, owner, account, peer }: World) {
  const path = "/v1/tasks/task_post";
  const held = { type: "echo", start_at: LATER };
  const url = `https://example.com/${"x".repeat(1900)}`;
  const hundred = (task: object): readonly object[] => Array.from({ length: 100 }, () => task);
  const megabyte = hundred({ ...held, input: "x".repeat(10 * KIB) });
  const input = (text: string): string => `[{"type":"echo","start_at":"${LATER}","input":${text}}]`;
  const used = { "idempotency-key": "used" };
  await owner.done(owner.post(path, megabyte, used));
  return {
    taskPost: owner.post(path, megabyte),
    taskPostUrls: owner.post(
      path,
      hundred({ ...held, tag: TAG, postback_url: url, pingback_url: `${url}?id=$id` }),
    ),
    taskPostDigits: owner.post(path, input(`[${"1e9,".repeat((MIB - 200) / 4)}1]`)),
    taskPostArray: owner.post(path, input(`[${"0,".repeat((MIB - 200) / 2)}1]`)),
    taskPostDeep: { ask: owner.post(path, "[".repeat(MIB - 10)), status: 400 },
    taskPostShort: owner.post(path, input(names(64 * KIB - 200))),
    taskPostAgain: owner.post(path, megabyte, used),
    taskCancel: async () => {
      const [id = ""] = await owner.postTasks({ ...held, input: "ш".repeat(MIB / 2 - 200) });
      return owner.post(`/v1/tasks/task_cancel/${id}`, {});
    },
    taskCancelMany: async () => {
      await owner.postTasks({ ...held, tag: "bulk" }, 1000);
      return owner.post("/v1/tasks/cancel", { tag: "bulk" });
    },
    redeliver: {
      ask: async () => {
        const [id = ""] = await owner.postTasks({ ...held, postback_url: peer.url("/hook") });
        return owner.post(`/v1/tasks/redeliver/${id}`, {});
      },
      status: 200,
    },
    ...keyCases(owner),
    ...signInCases({ anybody, account }),
  } as const satisfies Cases;
}

/** An account has few active keys: each one that is made is revoked. */
function keyCases(owner: Caller) {
  const create = owner.post("/v1/appendix/keys", { label: "ш".repeat(64) });
  const revoke = (made: string): Ask =>
    owner.delete(`/v1/appendix/keys/${/"key_id":"([^"]+)"/.exec(made)?.[1] ?? ""}`);
  return {
    keyCreate: {
      ask: create,
      after: async (made) => {
        await owner.done(revoke(made));
      },
    },
    keyRevoke: async () => revoke(await owner.done(create)),
  } as const satisfies Cases;
}

/** The requests without a key, or before there is a session. */
function signInCases({ anybody, account }: Pick<World, "anybody" | "account">) {
  const message = "\\u0448".repeat(4000);
  return {
    accessRequest: anybody.post(
      "/v1/access_requests",
      `{"email":"a@example.com","message":"${message}"}`,
    ),
    accessRequestLarge: {
      ask: anybody.post("/v1/access_requests", `[${"1e9,".repeat((MIB - 200) / 4)}1]`),
      status: 413,
    },
    session: anybody.get("/v1/session"),
    signIn: {
      ask: fromPage(anybody.post("/v1/session", { login: account.login, key: `${account.key}x` })),
      status: 401,
    },
    signInByLink: {
      ask: fromPage(anybody.post("/v1/session/link", { token: `pbd_link_${"x".repeat(43)}` })),
      status: 401,
    },
    signOut: fromPage(anybody.delete("/v1/session")),
  } as const satisfies Cases;
}

function fromPage<Of extends { readonly headers?: Readonly<Record<string, string>> }>(ask: Of): Of {
  const more = { "sec-fetch-site": "same-origin", "x-requested-with": "postbackd" };
  return { ...ask, headers: { ...ask.headers, ...more } };
}

/** An object with as many different names as fit. */
function names(bytes: number): string {
  const members: string[] = [];
  for (let i = 0, length = 2; length < bytes - 16; i++) {
    const member = `"${i.toString(36)}":0`;
    members.push(member);
    length += member.length + 1;
  }
  return `{${members.join(",")}}`;
}
