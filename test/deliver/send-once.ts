// Makes one attempt in a process of its own, whose environment the test decides: sends a POST to the
// URL given and prints the result. The second argument is one entry of the allow list, the third a
// hosts file.
import { readFileSync } from "node:fs";
import { setDefaultCACertificates } from "node:tls";

import { Resolver } from "../../src/deliver/resolver.ts";
import { Sender } from "../../src/deliver/send.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import { requestTo, toPolicy } from "./sender-setup.ts";

const [url = "", allow = "", hostsFile = "", trustedFile = ""] = process.argv.slice(2);
if (trustedFile !== "") setDefaultCACertificates([readFileSync(trustedFile, "utf8")]);
const resolver = new Resolver({ clock: systemClock, servers: ["127.0.0.1:1"], hostsFile });
const policy = toPolicy([allow]);
const sender = new Sender({
  clock: systemClock,
  resolver,
  policy: () => policy,
  timeoutMs: 10_000,
});
const result = await sender.send(requestTo(url));
sender.close();
process.stdout.write(JSON.stringify(result));
