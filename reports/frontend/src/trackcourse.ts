// Rows that show a quantity over time as a filled area: what a device's memory held.

import { si } from "./format";
import { LABEL, after, fitted, type Hit, type Track } from "./trackrows";
import type { View } from "./trackpaint";

/** values: at most in each part; over: what lies above them (reserved of the device), if recorded; peak: place of the most. */
export interface Course { values: number[]; over?: number[]; most: number; peak: number; unit: string; says: [string, string] }

/** The area, its bound, and the peak with its size. `width` in CSS pixels; the context is that of the rows. */
export function drawCourse(v: View, c: CanvasRenderingContext2D, t: Track, width: number): void {
  const course = t.course!, x = (ns: number) => LABEL + (ns - v.from) / (v.to - v.from) * (width - LABEL - 8);
  const tall = t.height - 3, y = (value: number) => t.y + t.height - value / course.most * tall;
  const first = Math.max(0, after(t.end, v.from) - 1), stop = after(t.start, v.to);
  c.save();
  c.beginPath();
  c.rect(LABEL, t.y - 1, width - LABEL - 8, t.height + 2);
  c.clip();
  c.fillStyle = v.palette.line;
  c.fillRect(LABEL, t.y + t.height, width, 1);
  const area = (values: number[], alpha: number) => {
    c.beginPath();
    c.moveTo(x(t.start[first]), t.y + t.height);
    for (let i = first; i < stop; i++) {
      c.lineTo(x(t.start[i]), y(values[i]));
      c.lineTo(x(t.end[i]), y(values[i]));
    }
    c.lineTo(x(t.end[Math.max(stop - 1, first)]), t.y + t.height);
    c.globalAlpha = alpha;
    c.fillStyle = v.palette.held;
    c.fill();
    c.globalAlpha = 1;
  };
  if (stop > first) {
    if (course.over) area(course.over, 0.22);
    area(course.values, 0.75);
    drawPeak(v, c, t, course, x((t.start[course.peak] + t.end[course.peak]) / 2), y(course.values[course.peak]), width);
  }
  c.restore();
  c.fillStyle = v.palette.card;
  c.fillRect(0, t.y - 2, LABEL - 6, t.height + 4);
  c.fillStyle = v.palette.dim;
  c.fillText(fitted(t.title), 4, t.y + 8);
  c.fillText(`to ${si(course.most, course.unit)}`, 4, t.y + 22);
}

function drawPeak(v: View, c: CanvasRenderingContext2D, t: Track, course: Course, x: number, y: number, width: number): void {
  if (x < LABEL || x > width - 8) return;
  const text = `peak ${si(course.values[course.peak], course.unit)}`, room = c.measureText(text).width + 6;
  const left = x + room + 8 > width - 8 ? x - room - 4 : x + 6, middle = Math.min(Math.max(y + 1, t.y + 7), t.y + t.height - 7);
  c.fillStyle = v.palette.ink;
  c.fillRect(x - 0.75, t.y, 1.5, t.height);
  c.beginPath();
  c.arc(x, y + 0.5, 3, 0, 2 * Math.PI);
  c.fill();
  c.fillStyle = v.palette.card;
  c.fillRect(left, middle - 7, room, 14);
  c.fillStyle = v.palette.ink;
  c.fillText(text, left + 3, middle);
}

/** What a place of such a row is, in words. */
export function describeCourse({ track, index }: Hit): string[] {
  const { values, over, unit, says } = track.course!;
  return [`${si(values[index], unit)} ${says[0]}`, ...(over ? [`${si(over[index], unit)} ${says[1]}`] : [])];
}
