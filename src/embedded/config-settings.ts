/**
 * The keys of a `postbackd.toml` with their sections. Any key here: in the package this is an interface with the type of
 * each, which `scripts/package-types.ts` writes from the settings.
 */
export type ConfigSettings = Readonly<Record<string, unknown>>;
