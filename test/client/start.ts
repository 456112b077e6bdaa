import type { TestContext } from "node:test";

import {
  createClient,
  type AnyTypes,
  type Client,
  type TaskTypes,
} from "../../src/client/client.ts";
import { startTestDaemon, type TestDaemon, type TestDaemonOptions } from "../helpers/daemon.ts";

export interface Served<Types extends TaskTypes<Types>> {
  readonly daemon: TestDaemon;
  readonly client: Client<Types>;
  /** The method and path of each request that the client has sent. */
  readonly sent: readonly string[];
}

/** A daemon with a client of its account. */
export async function startClient<Types extends TaskTypes<Types> = AnyTypes>(
  t: TestContext,
  options: TestDaemonOptions = {},
): Promise<Served<Types>> {
  const daemon = await startTestDaemon(t, options);
  const sent: string[] = [];
  const client = createClient<Types>({
    url: daemon.url,
    key: daemon.account.key,
    fetch: (input, init) => {
      const { method, url } = new Request(input, init);
      sent.push(`${method} ${new URL(url).pathname}`);
      return fetch(input, init);
    },
  });
  return { daemon, client, sent };
}

/** All items of an iterator. */
export async function all<Item>(items: AsyncIterable<Item>): Promise<readonly Item[]> {
  return Array.fromAsync(items);
}
