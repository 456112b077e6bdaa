import type { BuildFacts, DashboardFile, PackedFile } from "../src/assets.ts";

/** The values of `src/assets.ts` that are the same in every bundle: `assetTexts` in `scripts/bundle.ts` defines them. */

declare const POSTBACKD_SCHEMA_SQL: string;
declare const POSTBACKD_POSTGRES_SCHEMA_SQL: string;
declare const POSTBACKD_SERVICE_UNIT: string;
declare const POSTBACKD_VERSION: string;
declare const POSTBACKD_BUILD: BuildFacts;
declare const POSTBACKD_DASHBOARD: readonly PackedFile[];

export const schemaSql: string = POSTBACKD_SCHEMA_SQL;
export const postgresSchemaSql: string = POSTBACKD_POSTGRES_SCHEMA_SQL;
export const serviceUnit: string = POSTBACKD_SERVICE_UNIT;
export const version: string = POSTBACKD_VERSION;
export const buildFacts: BuildFacts = POSTBACKD_BUILD;

let unpacked: readonly DashboardFile[] | null = null;

export function dashboardFiles(): readonly DashboardFile[] {
  unpacked ??= POSTBACKD_DASHBOARD.map(({ body, gzip, brotli, ...file }) => ({
    ...file,
    body: Buffer.from(body, "base64"),
    gzip: Buffer.from(gzip, "base64"),
    brotli: Buffer.from(brotli, "base64"),
  }));
  return unpacked;
}
