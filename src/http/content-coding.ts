/**
 * True for a coding that the values of `Accept-Encoding` accept (RFC 9110 §12.5.3). The client's preference among
 * several does not matter: the smallest serves it best.
 */
export function acceptsCoding(accepted: readonly string[]): (coding: "br" | "gzip") => boolean {
  const elements = accepted.join(",").toLowerCase().split(",");
  const weights = new Map(
    elements.map((element) => {
      const [coding = "", ...parameters] = element.split(";").map((part) => part.trim());
      const quality = parameters.find((parameter) => parameter.startsWith("q="));
      return [coding, quality === undefined ? 1 : Number(quality.slice(2)) || 0];
    }),
  );
  return (coding) => (weights.get(coding) ?? weights.get("*") ?? 0) > 0;
}
