import type { Config } from "../config/config.ts";
import { isLoopbackHost } from "../domain/address/address.ts";
import type { ServerUrl } from "../domain/address/server-url.ts";
import type { Logger } from "../domain/log.ts";

/** Logs every decision of the operator that takes protection away: at every start, each by its name. */
export function warnOfRisks(
  { webhooks, insecureHttp, host, server }: Config,
  { log, env }: { readonly log: Logger; readonly env: NodeJS.ProcessEnv },
): void {
  for (const target of webhooks.allow) {
    log.warn({ target }, "webhooks may go to this target, public or not (webhooks.allow)");
  }
  if (insecureHttp) {
    log.warn(
      { host },
      "plain HTTP is accepted beyond loopback: keys travel readable (insecure_http)",
    );
  }
  if (server !== null) warnOfServer(server, log);
  if (env["NODE_TLS_REJECT_UNAUTHORIZED"] === "0") {
    log.warn(
      {},
      "NODE_TLS_REJECT_UNAUTHORIZED=0 is set: webhooks check certificates nevertheless; " +
        "take it out of the environment, command runners inherit it",
    );
  }
}

function warnOfServer({ hosts, tlsFiles }: ServerUrl, log: Logger): void {
  for (const { host, tls } of hosts) {
    if (host.startsWith("/") || isLoopbackHost(host)) continue;
    if (tls === "disable") {
      log.warn(
        { host },
        "the database is reached without TLS: tasks travel readable (sslmode=disable)",
      );
    }
    if (tls === "require" && tlsFiles.rootCert === null) {
      log.warn(
        { host },
        "the database's certificate is not checked: whoever stands on the way can read tasks (sslmode=require)",
      );
    }
  }
}
