#include "adjoin/report/page_parts.hpp"

namespace adjoin::report {

// Colours in the manner of Okabe and Ito, which colour-blind readers can distinguish too; lighter ones on a dark page.
const char* const kStyle = R"css(
:root{--paper:#fff;--ink:#1c1e21;--faint:#667;--line:#dde1e6;--card:#f7f8fa;--trouble:#b3261e;
--c0:#0072b2;--c1:#d55e00;--c2:#00855f;--c3:#a6498a;--c4:#8a6d00;--c5:#0b7f95;--c6:#8c564b;--c7:#555b66;
--computing:#3b7dd8;--waiting:#e0a030;--communicating:#c2459f;--reading:#2f9e6e}
@media (prefers-color-scheme:dark){:root{--paper:#15171a;--ink:#e6e8eb;--faint:#9aa3ad;--line:#343a41;--card:#1d2024;--trouble:#ff8a80;
--c0:#56b4e9;--c1:#ff9e4a;--c2:#3ecf9f;--c3:#e39ac9;--c4:#e6c84a;--c5:#5fd0e6;--c6:#d0a094;--c7:#aab2bf;
--computing:#5b9bf0;--waiting:#f0b850;--communicating:#e070c0;--reading:#4fc48f}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:16px;background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
h1{font-size:1.5em;margin:0 0 .2em}h2{font-size:1.2em;margin:1.8em 0 .5em;border-bottom:1px solid var(--line)}
h3{font-size:1em;margin:1.2em 0 .4em;overflow-wrap:anywhere}p{margin:.4em 0}
.legend{display:flex;flex-wrap:wrap;gap:.3em 1.2em;margin:.5em 0;padding:0;list-style:none;overflow-wrap:anywhere}
.swatch{display:inline-block;width:1.6em;border-top:4px solid;margin-right:.5em;vertical-align:middle}
.swatch.dashed{border-top-style:dashed}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr));gap:14px;margin:14px 0}
figure{margin:0;padding:10px;background:var(--card);border:1px solid var(--line);border-radius:6px;min-width:0;break-inside:avoid}
figcaption{font-weight:600;margin-bottom:4px;overflow-wrap:anywhere}
.wide{overflow-x:auto}
svg{display:block;font:12px system-ui,sans-serif}
svg.chart,svg.bars{width:100%;height:auto}
svg text{fill:var(--ink)}
.chart text{fill:var(--faint);font-size:12px}
.grid{stroke:var(--line)}
.raw,.line{fill:none;stroke-linejoin:round}
.raw{stroke-width:1;opacity:.35}.line{stroke-width:1.8}
path.dashed{stroke-dasharray:5 3}
.chart .point{stroke:none}
.mark{fill:none;stroke:var(--ink);stroke-width:2}
.schedule text,.layout text{font-size:12px}
.schedule rect[fill="#f4f4f4"]{fill:var(--line)}
.schedule g text{fill:#111}
.layout .box{fill-opacity:.22;stroke-width:1.5}
.measured{fill:var(--c0)}.mark-of-plan{fill:var(--ink)}
.computing{fill:var(--computing)}.waiting{fill:var(--waiting)}.communicating{fill:var(--communicating)}.reading{fill:var(--reading)}
table{border-collapse:collapse;font-size:14px}
th,td{text-align:left;padding:3px 12px 3px 0;border-bottom:1px solid var(--line);white-space:nowrap}
th[scope=col]{color:var(--faint);font-weight:600}tbody th{font-weight:500}
tr.differs td{font-weight:600}
.trouble{color:var(--trouble)}
.note{color:var(--faint)}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--card);border:1px solid var(--line);padding:8px;border-radius:6px}
#tip{position:fixed;pointer-events:none;background:var(--ink);color:var(--paper);padding:4px 8px;border-radius:4px;font-size:13px;
white-space:pre;z-index:2;max-width:96vw;overflow:hidden;text-overflow:ellipsis}
.c0{color:var(--c0);stroke:var(--c0);fill:var(--c0)}.c1{color:var(--c1);stroke:var(--c1);fill:var(--c1)}
.c2{color:var(--c2);stroke:var(--c2);fill:var(--c2)}.c3{color:var(--c3);stroke:var(--c3);fill:var(--c3)}
.c4{color:var(--c4);stroke:var(--c4);fill:var(--c4)}.c5{color:var(--c5);stroke:var(--c5);fill:var(--c5)}
.c6{color:var(--c6);stroke:var(--c6);fill:var(--c6)}.c7{color:var(--c7);stroke:var(--c7);fill:var(--c7)}
path.raw,path.line{fill:none}
@media print{:root{--paper:#fff;--ink:#000;--faint:#444;--line:#bbb;--card:#fff;--trouble:#b3261e;
--c0:#0072b2;--c1:#d55e00;--c2:#00855f;--c3:#a6498a;--c4:#8a6d00;--c5:#0b7f95;--c6:#8c564b;--c7:#555b66;
--computing:#3b7dd8;--waiting:#e0a030;--communicating:#c2459f;--reading:#2f9e6e}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{max-width:none;padding:0;font-size:11pt}.figures{grid-template-columns:1fr 1fr}
.wide{overflow:visible}.schedule,.layout{max-width:100%;height:auto}table{font-size:8pt}
th,td{white-space:normal;padding-right:6px}th[scope=row],tr.differs td{overflow-wrap:anywhere}h2,h3{break-after:avoid}tr{break-inside:avoid}#tip{display:none}}
)css";

// Shows the step and value of the point nearest to the pointer, and of other points at the same place.
const char* const kScript = R"js(
const data=JSON.parse(document.getElementById("data").textContent),tip=document.getElementById("tip");
document.querySelectorAll("svg.chart").forEach((svg,i)=>{
const {x,y,curves}=data.charts[i],mark=svg.querySelector(".mark"),points=[];
const px=s=>x[0]+(x[1]-x[0])*(s-x[2])/(x[3]-x[2]);
const at=y[4]?v=>Math.log(v/y[2])/Math.log(y[3]/y[2]):v=>(v-y[2])/(y[3]-y[2]);
const py=v=>y[0]+(y[1]-y[0])*at(v);
for(const c of curves){let s=0;c.steps.forEach((d,k)=>{s+=d;points.push({x:px(s),y:py(c.values[k]),step:s,value:c.values[k],run:data.runs[c.run]})})}
const hide=()=>{tip.hidden=true;mark.setAttribute("visibility","hidden")};
const show=e=>{
const p=new DOMPoint(e.clientX,e.clientY).matrixTransform(svg.getScreenCTM().inverse());
let best=Infinity,near=[];
for(const q of points){const d=(q.x-p.x)**2+(q.y-p.y)**2;if(d<best-1e-6){best=d;near=[q]}else if(d<best+1e-6)near.push(q)}
if(!near.length)return;
tip.textContent=near.slice(0,16).map(q=>q.run+"\nstep "+q.step.toLocaleString("en-US")+": "+q.value).join("\n");
tip.hidden=false;mark.setAttribute("cx",near[0].x);mark.setAttribute("cy",near[0].y);mark.setAttribute("visibility","visible");
const r=tip.getBoundingClientRect();
tip.style.left=Math.max(4,Math.min(e.clientX+14,innerWidth-r.width-4))+"px";
tip.style.top=(e.clientY+18+r.height>innerHeight?Math.max(4,e.clientY-r.height-10):e.clientY+18)+"px"};
svg.addEventListener("pointermove",show);svg.addEventListener("pointerdown",show);svg.addEventListener("pointerleave",hide)});
)js";

}  // namespace adjoin::report
