/** The chart as a picture, with its title and the names of its lines. */
import type uPlot from "uplot";
import { save } from "../data/save.ts";
import { plain } from "../view/parts/visible.ts";
import type { ChartSeries } from "./chart-data.ts";
import { lineColour, resolved } from "./colours.ts";

export function savePng(plot: uPlot, title: string, series: readonly ChartSeries[]): void {
  const scale = devicePixelRatio;
  const source = plot.ctx.canvas;
  const head = 44 * scale;
  const canvas = document.createElement("canvas");
  canvas.width = source.width;
  canvas.height = source.height + head;
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = resolved("var(--surface)");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = resolved("var(--ink)");
  ctx.font = `600 ${13 * scale}px system-ui, sans-serif`;
  ctx.fillText(title, 10 * scale, 18 * scale);
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  let x = 10 * scale;
  series.forEach((one, i) => {
    ctx.fillStyle = resolved(lineColour(one.colour ?? i));
    ctx.fillRect(x, 29 * scale, 8 * scale, 8 * scale);
    ctx.fillStyle = resolved("var(--ink-soft)");
    const name = plain(one.name);
    ctx.fillText(name, x + 12 * scale, 37 * scale);
    x += ctx.measureText(name).width + 26 * scale;
  });
  ctx.drawImage(source, 0, head);
  canvas.toBlob((blob) => blob && save(blob, `${title.replace(/[^\w.-]+/g, "-")}.png`));
}
