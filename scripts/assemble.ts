import sea from "@yao-pkg/pkg/lib-es5/sea.js";

/**
 * Assembles an executable with pkg in SEA mode. `executable.ts` runs it as a separate process: pkg takes its cache from HOME
 * and its temporary folder from TMPDIR, and changes the working folder.
 *
 * pkg's documented `exec` drops `seaConfig`, which has V8's flags and the assets. The module imported here is not
 * documented, so package.json pins pkg to one version.
 */

// `executable.ts` has put Node into pkg's cache. If a new pkg looks elsewhere, the build fails and does not download Node.
globalThis.fetch = () => Promise.reject(new Error("pkg did not find Node in its cache"));

const [entry = "", options = ""] = process.argv.slice(2);
await sea.default(entry, JSON.parse(options));
