import { parseFlags, toggle, valuesOf } from "./kit/flags.ts";
import { runScript } from "./kit/script.ts";

const FLAGS = {
  cluster: toggle(
    "three daemons on PostgreSQL behind HAProxy, of which one and the database are killed",
  ),
};

const USAGE = "npm run demo               one daemon, one file\nnpm run demo -- --cluster";

/**
 * `npm run demo`: the main job on real input, by one daemon or by several. Whatever is not as it should be ends the
 * demo with exit code 1 and the reason.
 */
await runScript(async () => {
  const given = parseFlags(FLAGS, process.argv.slice(2));
  if (given === null) {
    process.stdout.write(`${USAGE}  ${FLAGS.cluster.meaning}\n`);
  } else if (valuesOf(FLAGS, given).cluster) {
    const { clusterDemo } = await import("./demo/cluster-demo.ts");
    await clusterDemo();
  } else {
    const { oneDaemonDemo } = await import("./demo/one-daemon.ts");
    await oneDaemonDemo();
  }
});
